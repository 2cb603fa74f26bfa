package sidecar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

var update = flag.Bool("update", false, "write what came out into testdata")

// logTo makes a sidecar log its decisions to an exporter.
func logTo(exporter sdklog.Exporter, more ...func(*decisionlog.Config)) func(*sidecar.Config) {
	return func(c *sidecar.Config) {
		c.DecisionLog.Provider = sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(exporter)))
		for _, change := range more {
			change(&c.DecisionLog)
		}
	}
}

// TestDecisionLogFiles runs the files of testdata/decisionlog. Each has policy.rego or
// rule-N.rego of a chain, input.json and event.json, the event that is logged. Lines
// of its comment like "show: cookie" set the configuration.
func TestDecisionLogFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/decisionlog/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { testEvent(t, file) })
	}
}

func testEvent(t *testing.T, name string) {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	got := logged(t, files, settings(t, string(archive.Comment)))
	if *update {
		for i, f := range archive.Files {
			if f.Name == "event.json" {
				archive.Files[i].Data = []byte(got)
			}
		}
		if err := os.WriteFile(name, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if files["event.json"] == "" {
		t.Fatal("the file has no event.json")
	}
	if diff := cmp.Diff(files["event.json"], got); diff != "" {
		t.Error(diff)
	}
}

// settings reads the comment of a file.
func settings(t *testing.T, comment string) func(*decisionlog.Config) {
	t.Helper()
	return func(c *decisionlog.Config) {
		for _, m := range regexp.MustCompile(`(?m)^([a-z]+): (.*)$`).FindAllStringSubmatch(comment, -1) {
			switch m[1] {
			case "show":
				c.Show = strings.Split(m[2], ",")
			case "bytes":
				c.EventBytes, _ = strconv.Atoi(m[2])
			case "label":
				key, value, _ := strings.Cut(m[2], "=")
				c.Labels = map[string]string{key: value}
			default:
				t.Fatalf("there is no setting %s", m[1])
			}
		}
	}
}

// logged returns the event of one request, indented; "none" if there is none.
func logged(t *testing.T, files map[string]string, change func(*decisionlog.Config)) string {
	t.Helper()
	p := &adminpb.Policy{Name: webName, Etag: `W/"1"`, Modules: make(map[string]string)}
	for name, content := range files {
		if strings.HasSuffix(name, ".rego") {
			p.Modules[name] = content
		}
	}
	for path := range strings.FieldsSeq(files["rules"]) {
		p.Rules = append(p.Rules, &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: path}}})
	}
	feed, rec, m := newFeed(), newRecording(), newMeter()
	feed.put(webName, authz.PolicyState{Policy: p})
	s, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) {
		c.Meters = m
		logTo(rec, change)(c)
	})
	testkit.Closed(t, "s is ready", s.Ready())
	s.Check(context.Background(), requestOf(t, files["input.json"]))
	stop()
	if m.count(t, "understudy.decision_log.events", label("outcome", "dropped_by_rule")) == 1 {
		return "none\n"
	}
	return indented(t, rec.await(t, 1)[0].body)
}

// requestOf returns a request with a document.
func requestOf(t testing.TB, document string) *authz.Request {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.UseNumber()
	var input map[string]any
	if err := decoder.Decode(&input); err != nil {
		t.Fatal(err)
	}
	return &authz.Request{
		ID: "d1", Time: time.Unix(1_700_000_000, 5), Size: len(document),
		Source: func(*authz.ReadBudget) (rego.Input, error) {
			if input["bad"] == true {
				return rego.Input{}, &authz.BadRequest{Reason: "The path has a bad escape."}
			}
			return rego.NewInput(input)
		},
	}
}

// indented returns an event for people, with a duration that is always the same.
func indented(t *testing.T, event string) string {
	t.Helper()
	if strings.Contains(event, "\n") {
		t.Errorf("an event has more than one line: %q", event)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(event), "", "  "); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`("timer_server_handler_ns": )[1-9]\d*`).ReplaceAllString(out.String(), "${1}1") + "\n"
}

// TestTheRecordOfADecision pins what stands next to the event: of the request nothing,
// for a mask takes it out of the event alone.
func TestTheRecordOfADecision(t *testing.T) {
	feed, rec := newFeed(), newRecording()
	feed.put(webName, authz.PolicyState{Policy: policy("W/live", allowIf(onlyGET))})
	s, _ := start(t, feed, logTo(rec))
	testkit.Closed(t, "s is ready", s.Ready())
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true,
	}))
	r := request("POST", nil)
	r.Time = time.Unix(1_700_000_000, 5)
	s.Check(ctx, r)
	got := rec.await(t, 1)[0]
	if !strings.Contains(got.body, `"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"`) {
		t.Errorf("the event is %s", got.body)
	}
	got.body = ""
	want := record{
		severity: "INFO", event: "understudy.decision", time: time.Unix(1_700_000_000, 5),
		traceID: "01000000000000000000000000000000", spanID: "0200000000000000",
		attributes: map[string]string{
			"understudy.decision_id":    "id",
			"understudy.policy.name":    webName,
			"understudy.policy.etag":    "W/live",
			"understudy.policy.result":  "DENY",
			"understudy.policy.failure": "",
			"understudy.policy.rule":    "main",
			"understudy.policy.default": "false",
			"understudy.location":       string(location),
			"understudy.node":           "n1",
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); diff != "" {
		t.Error(diff)
	}
}

// TestDecisionsWithoutAPolicyAreLogged asks before there are policies, for one that
// does not exist, and for one that never compiled: its masks are not known.
func TestDecisionsWithoutAPolicyAreLogged(t *testing.T) {
	feed, rec := newFeed(), newRecording()
	feed.setDown(true)
	s, _ := start(t, feed, func(c *sidecar.Config) { logTo(rec)(c); c.Default = authz.Allow })
	ask := func(policy authz.PolicyID) string {
		r := request("GET", nil)
		r.Policy = policy
		s.Check(t.Context(), r)
		records := rec.await(t, 1)
		body, _, _ := strings.Cut(records[len(records)-1].body, `,"timestamp"`)
		_, body, _ = strings.Cut(body, `,"decision_id":"id"`)
		return body
	}
	const stripped = `Input and result are left out: the policy's rules for the log did not say what to mask: the policy could not be loaded, and they with it."}`
	if got, want := ask("web"), `,"erased":["/input"],"error":{"code":"NOT_READY","message":"No policy has been loaded yet. `+stripped; got != want {
		t.Errorf("before there are policies: %s\nwant %s", got, want)
	}
	feed.put(webName, authz.PolicyState{Policy: policy("broken", "package envoy.authz\nallow if")})
	feed.setDown(false)
	testkit.Closed(t, "s is ready", s.Ready())
	if got, want := ask("other"), `,"bundles":{"projects/p1/locations/l1/policies/other":{}},"input":{"method":"GET"},"result":true`; got != want {
		t.Errorf("a policy that does not exist: %s\nwant %s", got, want)
	}
	if got, want := ask("web"), `,"bundles":{"`+webName+`":{"revision":"broken"}},"erased":["/input"],"error":{"code":"NOT_READY","message":"The policy could not be loaded. `+stripped; got != want {
		t.Errorf("a policy that never compiled: %s\nwant %s", got, want)
	}
}

// TestMasksChangeTheEventAlone masks what a preview, the answer and the next event
// read too.
func TestMasksChangeTheEventAlone(t *testing.T) {
	feed, rec := newFeed(), newRecording()
	module := `package envoy.authz
allow := {"allowed": input.token == "t", "dynamic_metadata": data.fixed}
` + "\n"
	p := policy("a", module)
	p.Modules["log.rego"] = "package system.log\nmask contains \"/input/token\"\n" +
		"mask contains {\"op\": \"upsert\", \"path\": \"/result/dynamic_metadata/inner/key\", \"value\": 0}"
	p.Data = object(t, `{"fixed": {"inner": {"key": "kept"}}}`)
	feed.put(webName, authz.PolicyState{Policy: p, Experiments: []*adminpb.PolicyExperiment{experiment("same", "s", allowIf(`input.token == "t"`))}})
	s, previews := start(t, feed, logTo(rec))
	testkit.Closed(t, "s is ready", s.Ready())
	for range 20 {
		r := request("GET", map[string]any{"token": "t"})
		d := s.Check(t.Context(), r)
		event := rec.await(t, 1)
		if body := event[len(event)-1].body; !strings.Contains(body, `{"inner":{"key":0}}`) || strings.Contains(body, `"token"`) {
			t.Fatalf("the event is not masked: %s", body)
		}
		if diff := cmp.Diff(map[string]any{"inner": map[string]any{"key": "kept"}}, d.Metadata); d.Effect != authz.Allow || diff != "" {
			t.Fatalf("the decision is %+v: %s", d, diff)
		}
		if input, _ := r.Input(nil); !strings.Contains(mustJSON(t, input), `"token":"t"`) {
			t.Fatal("the input lost its token")
		}
	}
	for _, r := range previews.await(t, 20) {
		if r.attributes["understudy.experiment.result"] != "ALLOW" {
			t.Fatalf("a preview is %v", r.attributes)
		}
	}
}

func mustJSON(t *testing.T, input rego.Input) string {
	t.Helper()
	document, err := input.Document()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
