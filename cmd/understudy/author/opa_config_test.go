package author_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/author"
	"understudy/rego"
)

// The modules of the tests.
const (
	decisionModule = "package envoy.authz\n\ndefault allow := true\n"
	// hideModule has masks in both forms and a rule that drops.
	hideModule = `package corp.log

hide contains "/input/attributes/request/http/headers/x-user"

hide contains {"op": "upsert", "path": "/input/source_principal", "value": "hidden"} if input.path == "envoy/authz/allow"

list := ["/input/b", "/input/a"]

skip if input.input.path == "/healthz"

f(x) := x
`
	withPlugin = "plugins: {envoy_ext_authz_grpc: {}}\n"
)

// runImport runs `import` on a folder with these modules and this configuration.
func runImport(t *testing.T, modules map[string]string, config string, arguments ...string) (policy *adminpb.Policy, notes string, err error) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range modules {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "opa.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := author.NewImport()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{folder, "--opa-config", file, "-o", "json"}, arguments...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.Execute(); err != nil {
		if stdout.Len() > 0 {
			t.Errorf("after an error there is output: %s", &stdout)
		}
		return nil, stderr.String(), err
	}
	policy = &adminpb.Policy{}
	if err := protojson.Unmarshal(stdout.Bytes(), policy); err != nil {
		t.Fatal(err)
	}
	return policy, stderr.String(), nil
}

// evalLogRule evaluates a rule for the decision log of an event, as a sidecar does.
func evalLogRule(t *testing.T, policy *adminpb.Policy, path, event string) any {
	t.Helper()
	compiled, err := authz.Compile(context.Background(), policy)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(event), &document); err != nil {
		t.Fatal(err)
	}
	input, err := rego.NewInput(document)
	if err != nil {
		t.Fatal(err)
	}
	value, err := compiled.EvalLogRule(context.Background(), path, input, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestImportForwardsLogRulesOfOPAConfig(t *testing.T) {
	policy, notes, err := runImport(t, map[string]string{"authz.rego": decisionModule, "hide.rego": hideModule}, withPlugin+`
decision_logs:
  mask_decision: /corp/log/hide
  drop_decision: corp/log/skip
`)
	if err != nil || notes != "" {
		t.Fatalf("notes %q, error %v", notes, err)
	}
	want := `# Written by 'understudy import': OPA's configuration names these rules.
package system.log

# decision_logs.mask_decision
mask := data.corp.log.hide

# decision_logs.drop_decision
drop := data.corp.log.skip
`
	if diff := cmp.Diff(want, policy.GetModules()["system_log.rego"]); diff != "" {
		t.Error(diff)
	}
	event := `{"path": "envoy/authz/allow", "input": {"path": "/healthz"}}`
	masks := []any{
		"/input/attributes/request/http/headers/x-user",
		map[string]any{"op": "upsert", "path": "/input/source_principal", "value": "hidden"},
	}
	if diff := cmp.Diff(any(masks), evalLogRule(t, policy, authz.LogMaskPath, event)); diff != "" {
		t.Error(diff)
	}
	if got := evalLogRule(t, policy, authz.LogDropPath, event); got != true {
		t.Errorf("drop is %v", got)
	}
	if got := evalLogRule(t, policy, authz.LogDropPath, `{"input": {"path": "/"}}`); got == true {
		t.Error("an event is dropped that OPA keeps")
	}
}

// TestImportForwardsToAnArrayInItsOrder: masks of an array are applied one after the other.
func TestImportForwardsToAnArrayInItsOrder(t *testing.T) {
	modules := map[string]string{
		"authz.rego": decisionModule, "system_log.rego": hideModule, "names.rego": "package corp[\"my-log\"]\n\nmasks := data.corp.log.list\n",
	}
	// The path has a name that Rego has to quote, the key is written as encoding/json accepts it, and the
	// name of the written module is in use.
	policy, _, err := runImport(t, modules, withPlugin+"decision_logs: {MASK_DECISION: /corp/my-log/masks}\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any([]any{"/input/b", "/input/a"}), evalLogRule(t, policy, authz.LogMaskPath, "{}")); diff != "" {
		t.Error(diff)
	}
	if policy.GetModules()["system_log.rego"] != hideModule || !strings.Contains(policy.GetModules()["system_log_2.rego"], `mask := data.corp["my-log"].masks`) {
		t.Errorf("the modules are %v", policy.GetModules())
	}
}

// TestImportNeedsNoForwardingForDefaultNames: the default names of OPA are those that are evaluated.
func TestImportNeedsNoForwardingForDefaultNames(t *testing.T) {
	modules := map[string]string{"authz.rego": decisionModule, "log.rego": "package system.log\n\nmask contains \"/input/a\"\n"}
	policy, notes, err := runImport(t, modules, withPlugin+"decision_logs: {mask_decision: /system/log/mask, drop_decision: /system/log/drop}\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any([]any{"/input/a"}), evalLogRule(t, policy, authz.LogMaskPath, "{}")); diff != "" || len(policy.GetModules()) != 2 {
		t.Errorf("the modules are %v; %s", policy.GetModules(), diff)
	}
	if notes != "note: decision_logs.drop_decision names system/log/drop, and the bundle has no such rule: it hides nothing.\n" {
		t.Errorf("the notes are %q", notes)
	}
}

func TestImportRefusesSettingsThatHideData(t *testing.T) {
	hide := map[string]string{"authz.rego": decisionModule, "hide.rego": hideModule}
	own := map[string]string{"authz.rego": decisionModule, "hide.rego": hideModule, "log.rego": "package system.log\n\nmask contains \"/input/a\"\n"}
	for name, c := range map[string]struct {
		modules map[string]string
		config  string
		// want are parts of the error, and ignore are the flags without which there is one.
		want   []string
		ignore []string
	}{
		"no such rule": {
			hide, "decision_logs: {mask_decision: /corp/log/gone}",
			[]string{"decision_logs.mask_decision names corp/log/gone, and the bundle has no such rule", "in clear", "--ignore decision_logs.mask_decision"},
			[]string{"decision_logs.mask_decision"},
		},
		"both": {
			hide, "decision_logs: {mask_decision: a//b, drop_decision: gone}",
			[]string{"mask_decision names a//b", "drop_decision names gone", "--ignore decision_logs.drop_decision"},
			[]string{"decision_logs.mask_decision", "decision_logs.drop_decision"},
		},
		"package is there": {
			own, "decision_logs: {mask_decision: /corp/log/hide}",
			[]string{"names corp/log/hide, and the bundle has package system.log already (log.rego)", "`mask := data.corp.log.hide`", "--ignore decision_logs.mask_decision"},
			[]string{"decision_logs.mask_decision"},
		},
		"package is there, drop": {
			own, "decision_logs: {drop_decision: /corp/log/skip}",
			[]string{"`drop := data.corp.log.skip`", "--ignore decision_logs.drop_decision"},
			[]string{"decision_logs.drop_decision"},
		},
		"rule of package system": {
			map[string]string{"authz.rego": decisionModule, "hide.rego": hideModule, "log.rego": "package system\n\nlog.mask contains \"/input/a\"\n"},
			"decision_logs: {mask_decision: /corp/log/hide}", []string{"has package system.log already"}, []string{"decision_logs.mask_decision"},
		},
		"discovery": {
			hide, "discovery: {resource: x}", []string{"discovery: OPA downloads", "--ignore discovery"}, []string{"discovery"},
		},
		"parsed body": {
			hide, "decision_logs: {mask_decision: corp/log/hide}\nplugins: {envoy_ext_authz_grpc: {skip-request-body-parse: yes}}",
			[]string{"skip-request-body-parse is true", "/input/parsed_body", "--ignore plugins.envoy_ext_authz_grpc.skip-request-body-parse"},
			[]string{"plugins.envoy_ext_authz_grpc.skip-request-body-parse"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := c.config
			if !strings.Contains(config, "plugins:") {
				config = withPlugin + config
			}
			_, _, err := runImport(t, c.modules, config)
			if err == nil {
				t.Fatal("it is imported")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not have %q", err, want)
				}
			}
			var flags []string
			for _, key := range c.ignore {
				flags = append(flags, "--ignore", key)
			}
			policy, notes, err := runImport(t, c.modules, config, flags...)
			if err != nil || notes != "" {
				t.Fatalf("with %v: notes %q, error %v", flags, notes, err)
			}
			if name != "parsed body" && len(policy.GetModules()) != len(c.modules) {
				t.Errorf("the modules are %v", policy.GetModules())
			}
		})
	}
}

// TestIgnoredSectionKeepsMasks: a section silences notes only.
func TestIgnoredSectionKeepsMasks(t *testing.T) {
	config := withPlugin + "decision_logs: {console: true, mask_decision: corp/log/hide}\n"
	policy, notes, err := runImport(t, map[string]string{"authz.rego": decisionModule, "hide.rego": hideModule}, config, "--ignore", "decision_logs")
	if err != nil || notes != "" {
		t.Fatalf("notes %q, error %v", notes, err)
	}
	if !strings.Contains(policy.GetModules()["system_log.rego"], "mask := data.corp.log.hide") {
		t.Errorf("the modules are %v", policy.GetModules())
	}
}

func TestImportListsOtherSettingsOfOPAConfig(t *testing.T) {
	_, notes, err := runImport(t, map[string]string{"authz.rego": decisionModule}, `
services:
  acme: {url: https://bundles.example, credentials: {bearer: {token: s3cret}}}
labels: {app: shop, 1: x}
bundles:
  authz: {service: acme, resource: authz.tar.gz}
  log: {service: acme}
decision_logs:
  console: true
  nd_builtin_cache: true
  request_context: {http: {headers: [x-a]}}
  reporting: {max_decisions_per_second: 5}
status: {}
keys: {k: {key: s3cret}}
caching: {inter_query_builtin_cache: {max_size_bytes: 1}}
default_decision: a/b
persistence_directory: null
plugins:
  envoy_ext_authz_grpc: {addr: ':9191', dry-run: false, skip-request-body-parse: true, enable-reflection: true}
  own: {a: 1}
unknown: 1
`)
	if err != nil {
		t.Fatal(err)
	}
	want := `note: plugins.envoy_ext_authz_grpc.skip-request-body-parse is true: OPA's input has no parsed_body and no truncated_body. Here both are always there, in the decision log too; without with_request_body in Envoy's filter parsed_body is null.
note: bundles has 2 bundles, which OPA loads together. The policy has the modules of the imported one only: rules of the others are not in it, package system.log included.
note: OPA's configuration has settings that are not in the policy:
  bundles.authz.resource: no counterpart
  bundles.authz.service: no counterpart
  bundles.log.service: no counterpart
  caching.inter_query_builtin_cache.max_size_bytes: no counterpart
  decision_logs.console: use 'understudy serve --decision-log console'
  decision_logs.nd_builtin_cache: no counterpart
  decision_logs.reporting.max_decisions_per_second: no counterpart
  decision_logs.request_context.http.headers: no counterpart
  default_decision: use 'understudy import --rule'
  keys.k.key: use 'understudy import --verification-key'
  labels.1: use 'understudy serve --decision-log-label'
  labels.app: use 'understudy serve --decision-log-label'
  plugins.envoy_ext_authz_grpc.addr: use 'understudy serve --authz-addr'
  plugins.envoy_ext_authz_grpc.enable-reflection: always on
  plugins.own.a: no counterpart
  services.acme.credentials.bearer.token: no counterpart
  services.acme.url: no counterpart
  status: no counterpart
  unknown: no counterpart
`
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Error(diff)
	}
}

func TestImportRefusesInvalidOPAConfig(t *testing.T) {
	modules := map[string]string{"authz.rego": decisionModule, "hide.rego": hideModule}
	for config, want := range map[string]string{
		withPlugin + "decision_logs: {mask_decision: [x]}":                            "decision_logs: mask_decision: it has to be a text",
		withPlugin + "decision_logs: {drop_decision: /}":                              "decision_logs: drop_decision: it has to name a rule, such as /system/log/drop",
		withPlugin + "decision_logs: {mask_decision: corp/log/f}":                     "corp/log/f is a function",
		withPlugin + "decision_logs: {mask_decision: a/b, Mask_Decision: corp/log/x}": "decision_logs.mask_decision is there twice",
		"plugins: {envoy_ext_authz_grpc: {skip-request-body-parse: 1}}":               "skip-request-body-parse: it has to be true or false",
		"plugins: {envoy_ext_authz_grpc: {dry-run: maybe}}":                           "dry-run: it has to be true or false",
		"plugins: {envoy_ext_authz_grpc: {path: {}}}":                                 "path: it has to be a text",
		"plugins: {envoy_ext_authz_grpc: 1}":                                          "no plugins.envoy_ext_authz_grpc; name the rule with --rule",
		"[":                                                                           "it is neither YAML nor JSON",
	} {
		if _, _, err := runImport(t, modules, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

// TestRuleFlagGoesWithOPAConfig: a configuration without a rule still has masks.
func TestRuleFlagGoesWithOPAConfig(t *testing.T) {
	modules := map[string]string{"authz.rego": decisionModule, "hide.rego": hideModule}
	policy, _, err := runImport(t, modules, "decision_logs: {mask_decision: corp/log/hide}", "--rule", "envoy/authz/allow")
	if err != nil {
		t.Fatal(err)
	}
	if len(policy.GetModules()) != 3 || policy.GetRules()[0].GetRego().GetPath() != "envoy/authz/allow" {
		t.Errorf("the policy is %v", policy)
	}
	named := "plugins: {envoy_ext_authz_grpc: {path: a/b}}"
	if _, _, err := runImport(t, modules, named, "--rule", "envoy/authz/allow"); err == nil || !strings.Contains(err.Error(), "pass --ignore plugins.envoy_ext_authz_grpc.path") {
		t.Errorf("two rules: %v", err)
	}
	if _, _, err := runImport(t, modules, named, "--rule", "envoy/authz/allow", "--ignore", "plugins.envoy_ext_authz_grpc.path"); err != nil {
		t.Error(err)
	}
	if _, _, err := runImport(t, modules, named, "--ignore", "nothing"); err == nil || !strings.Contains(err.Error(), "--ignore nothing: the configuration has no such setting") {
		t.Errorf("an unknown setting: %v", err)
	}
}
