package check_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// composeWithAccess loads docker-compose.yml with the overlay on top, as docker compose does.
func composeWithAccess(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml", "compose/access.yaml"}, cli.WithWorkingDirectory(".."),
		cli.WithEnv([]string{"CONTROL_PASSWORD=of-control", "SIDECAR_PASSWORD=of-sidecar"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// variable is what a service's environment has under a name; empty if it has none.
func variable(s types.ServiceConfig, name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// TestAccessOverlay: the admin API is a service of its own, which knows who calls; the
// sidecar has none, and each has its user of Redis.
func TestAccessOverlay(t *testing.T) {
	project := composeWithAccess(t)
	checkConfined(t, project)
	known := variables(t)
	for _, name := range []string{"control", "understudy"} {
		for variable := range project.Services[name].Environment {
			if strings.HasPrefix(variable, "UNDERSTUDY_") && !known[variable] {
				t.Errorf("%s: %s is no flag of serve", name, variable)
			}
		}
	}
	control, sidecar := project.Services["control"], project.Services["understudy"]
	for _, want := range []struct {
		service         types.ServiceConfig
		variable, value string
	}{
		{control, "UNDERSTUDY_ENABLE", "admin"}, {control, "UNDERSTUDY_ALLOW_UNAUTHENTICATED_ADMIN", ""},
		{control, "UNDERSTUDY_STORE", "redis://understudy:of-control@redis:6379"},
		{control, "UNDERSTUDY_ADMIN_OWNER", "cert:operator"}, {control, "UNDERSTUDY_LOCATION", variable(sidecar, "UNDERSTUDY_LOCATION")},
		{sidecar, "UNDERSTUDY_ENABLE", "authz"}, {sidecar, "UNDERSTUDY_ADMIN_ADDR", ""}, {sidecar, "UNDERSTUDY_ALLOW_UNAUTHENTICATED_ADMIN", ""},
		{sidecar, "UNDERSTUDY_STORE", "redis://understudy-sidecar:of-sidecar@redis:6379"},
	} {
		if got := variable(want.service, want.variable); got != want.value {
			t.Errorf("%s: %s is %q, want %q", want.service.Name, want.variable, got, want.value)
		}
	}
	for _, p := range sidecar.Ports {
		if p.Target == 8181 {
			t.Error("the sidecar publishes an admin API")
		}
	}
	if len(control.Ports) != 1 || control.Ports[0].Target != 8181 {
		t.Errorf("the control plane publishes %v, want 8181", control.Ports)
	}
	if together(project, "upstream", "control") || together(project, "envoy", "control") || !together(project, "redis", "control") {
		t.Error("the control plane is to reach Redis, and neither Envoy nor the upstream it")
	}
	if command := project.Services["redis"].Command; !slices.Contains(command, "/etc/redis/users.conf") || !slices.Contains(command, "always") {
		t.Errorf("Redis runs %q, without its users or its durability", command)
	}
}

// TestAccessOverlayMountsWhatItsScriptMakes: each file is one that secrets.sh writes, and
// what the variables name is mounted.
func TestAccessOverlayMountsWhatItsScriptMakes(t *testing.T) {
	script, err := os.ReadFile("compose/secrets.sh")
	if err != nil {
		t.Fatal(err)
	}
	project := composeWithAccess(t)
	folder, err := filepath.Abs("compose/secrets")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, name := range []string{"control", "redis"} {
		for _, v := range project.Services[name].Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			base := filepath.Base(v.Source)
			stem, suffix, _ := strings.Cut(base, ".")
			made := strings.Contains(string(script), ">"+base) || regexp.MustCompile(`(?m)^(signed|key) `+stem).Match(script) && (suffix == "crt" || suffix == "key")
			if filepath.Dir(v.Source) != folder || !made || !v.ReadOnly {
				t.Errorf("%s: %s is not made by secrets.sh, or can be written", name, v.Source)
			}
			targets[v.Target] = true
		}
	}
	for _, name := range []string{"CERT", "KEY", "CLIENT_CA"} {
		if file := variable(project.Services["control"], "UNDERSTUDY_ADMIN_TLS_"+name); !targets[file] {
			t.Errorf("--admin-tls-%s names %q, which is not mounted", strings.ToLower(name), file)
		}
	}
}

// TestControlPlaneOnKubernetes decodes control.yaml into Kubernetes' own types.
func TestControlPlaneOnKubernetes(t *testing.T) {
	var deployment appsv1.Deployment
	var service corev1.Service
	var account corev1.ServiceAccount
	var disruption policyv1.PodDisruptionBudget
	readObjects(t, "kubernetes/control.yaml", map[string]any{
		"apps/v1 Deployment": &deployment, "v1 Service": &service, "v1 ServiceAccount": &account, "policy/v1 PodDisruptionBudget": &disruption,
	})
	m := &manifest{deployment: deployment, service: service, disruption: disruption}
	checkRestricted(t, m)
	pod := labels.Set(deployment.Spec.Template.Labels)
	for what, selector := range map[string]map[string]string{
		"Deployment": deployment.Spec.Selector.MatchLabels, "Service": service.Spec.Selector, "PodDisruptionBudget": disruption.Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
			t.Errorf("the %s selects %v; the Pods have %v", what, selector, pod)
		}
	}
	c := m.container(t, "understudy")
	values, known := environment(c), variables(t)
	for name := range values {
		if strings.HasPrefix(name, "UNDERSTUDY_") && !known[name] {
			t.Errorf("%s is no flag of serve", name)
		}
	}
	owner := "oidc:" + values["UNDERSTUDY_ADMIN_OIDC_ISSUER"] + "#system:serviceaccount:default:" + account.Name
	if values["UNDERSTUDY_ENABLE"] != "admin" || values["UNDERSTUDY_ADMIN_OWNER"] != owner || values["UNDERSTUDY_ADMIN_OIDC_AUDIENCE"] == "" {
		t.Errorf("it does not serve the admin API alone to the owner %s: %v", owner, values)
	}
	mounts := map[string]bool{}
	for _, v := range c.VolumeMounts {
		mounts[v.MountPath] = slices.ContainsFunc(deployment.Spec.Template.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == v.Name })
	}
	for _, name := range []string{"ADMIN_TLS_CERT", "ADMIN_TLS_KEY", "ADMIN_OIDC_CA_FILE"} {
		if file := values["UNDERSTUDY_"+name]; !mounts[filepath.Dir(file)] {
			t.Errorf("%s names %q, which is not mounted", name, file)
		}
	}
	if port := service.Spec.Ports[0]; len(service.Spec.Ports) != 1 || !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal && p.ContainerPort == 8181 }) {
		t.Errorf("the Service leads to %v", service.Spec.Ports)
	}
}

// environment :: variable → value, of those that stand in the file.
func environment(c corev1.Container) map[string]string {
	out := map[string]string{}
	for _, e := range c.Env {
		out[e.Name] = e.Value
	}
	return out
}

// TestSidecarOnlyPatch applies the patch as the API server does: nothing else changes.
func TestSidecarOnlyPatch(t *testing.T) {
	before := readManifest(t)
	content, err := os.ReadFile("kubernetes/sidecar-only.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var patch map[string]any
	if err := yaml.Unmarshal(content, &patch); err != nil {
		t.Fatal(err)
	}
	decodeStrictly(t, patch, &appsv1.Deployment{})
	asJSON := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	patched, err := strategicpatch.StrategicMergePatch(asJSON(before.deployment), asJSON(patch), appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	after := &manifest{}
	if err := json.Unmarshal(patched, &after.deployment); err != nil {
		t.Fatal(err)
	}
	var enable, store *corev1.EnvVar
	c := after.container(t, "understudy")
	rest := slices.DeleteFunc(slices.Clone(c.Env), func(e corev1.EnvVar) bool {
		switch e.Name {
		case "UNDERSTUDY_ENABLE":
			enable = &e
		case "UNDERSTUDY_STORE":
			store = &e
		}
		return e.Name == "UNDERSTUDY_ENABLE" || e.Name == "UNDERSTUDY_STORE"
	})
	if enable == nil || enable.Value != "authz" || store == nil || store.ValueFrom.SecretKeyRef.Key != "sidecar-url" || store.ValueFrom.SecretKeyRef.Name != "understudy-store" {
		t.Errorf("the sidecar gets %+v and %+v", enable, store)
	}
	kept := slices.DeleteFunc(slices.Clone(before.container(t, "understudy").Env), func(e corev1.EnvVar) bool { return e.Name == "UNDERSTUDY_STORE" })
	if diff := cmp.Diff(kept, rest); diff != "" {
		t.Errorf("the patch changes other variables (-before +after):\n%s", diff)
	}
	if len(after.containers()) != len(before.containers()) {
		t.Error("the patch changes the containers")
	}
}
