package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/replay"
	"understudy/rego/change"
)

// policyOf returns a policy with one module, auth.rego.
func policyOf(module string) *adminpb.Policy {
	return &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"auth.rego": "package envoy.authz\ndefault allow := false\n" + module},
	}
}

// entryOf returns an event of a decision log.
func entryOf(t testing.TB, i int, input map[string]any, result any, more map[string]any) string {
	t.Helper()
	event := map[string]any{
		"decision_id": fmt.Sprint("d", i), "path": "envoy/authz/allow", "input": input, "result": result,
		"timestamp": start.Add(time.Duration(i) * time.Second).Format(time.RFC3339Nano), "bundles": map[string]any{"web": map[string]any{"revision": "r1"}},
	}
	for name, value := range more {
		event[name] = value
	}
	encoded, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

var start = time.Date(2026, 5, 4, 23, 59, 0, 0, time.UTC)

// envoy returns an input document of Envoy's form.
func envoy(method, path string, headers map[string]any) map[string]any {
	if headers == nil {
		headers = map[string]any{}
	}
	return map[string]any{
		"attributes": map[string]any{
			"source":  map[string]any{"principal": "spiffe://x/web"},
			"request": map[string]any{"http": map[string]any{"method": method, "path": path, "headers": headers}},
		},
		"parsed_path": strings.Split(strings.Trim(path, "/"), "/"), "parsed_query": map[string]any{},
	}
}

// files are the lines of one file.
func files(lines ...string) []replay.File {
	return []replay.File{{Name: "log", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Join(lines, "\n"))), nil
	}}}
}

func run(t testing.TB, o replay.Options) *replay.Result {
	t.Helper()
	o.LiveEtag, o.CandidateEtag = "a", "b"
	result, err := replay.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

const (
	anyGET    = "allow if input.attributes.request.http.method == \"GET\"\n"
	ordersGET = "allow if {\n\tinput.attributes.request.http.method == \"GET\"\n\tinput.parsed_path[0] == \"orders\"\n}\n"
)

// TestDifferences replays a log: the evidence has what both policies decide of it, with causes
// and items, and says the same whatever number of workers there is.
func TestDifferences(t *testing.T) {
	var lines []string
	for i := range 1000 {
		path := fmt.Sprintf("/%s/%d", []string{"orders", "users"}[i%2], i)
		lines = append(lines, entryOf(t, i, envoy([]string{"GET", "GET", "POST"}[i%3], path, nil), i%3 != 2, nil))
	}
	var first *replay.Result
	for _, workers := range []int{1, 4} {
		got := run(t, replay.Options{Live: policyOf(anyGET), Candidate: policyOf(ordersGET), Files: files(lines...), Workers: workers})
		if got.Entries != 1000 || got.Compared != 1000 || len(got.Skipped) != 0 {
			t.Errorf("%d entries, %d compared, skipped %v; want 1000, 1000 and none", got.Entries, got.Compared, got.Skipped)
		}
		pair := got.Evidence.GetPairs()[0]
		if c := pair.GetCounts(); c.GetNewlyDenied() != 334 || c.GetBothAllow()+c.GetBothDeny() != 666 {
			t.Errorf("counts are %v; want 334 newly denied and 666 unchanged", c)
		}
		if len(pair.GetGroups()) != 1 || pair.GetGroups()[0].GetPattern() != "/users/*" || len(pair.GetGroups()[0].GetCauses()) == 0 {
			t.Errorf("groups are %v; want one of /users/* with its cause", pair.GetGroups())
		}
		if list := pair.GetItems(); len(got.Items.Items) != 1 || len(list) != 1 || len(list[0].GetShown()) != 1 || len(list[0].GetUntrue()) != 1 {
			t.Errorf("the items are %+v and were shown by %v; want the condition that was added, both true and not", got.Items, list)
		}
		if want := (replay.Drift{Known: 1000, Same: 1000}); !cmp.Equal(got.Drift, want) {
			t.Errorf("drift is %+v; want %+v", got.Drift, want)
		}
		if first == nil {
			first = got
		} else if diff := cmp.Diff(first, got, protocmp.Transform()); diff != "" {
			t.Errorf("another number of workers, -one +four:\n%s", diff)
		}
	}
}

// TestItems sees those that a later request is the first to show, though the other policy learns the same of it,
// and of policies by OPA as well, whose evaluations learn all of the input.
func TestItems(t *testing.T) {
	for name, rule := range map[string]string{
		"":       ordersGET,
		"by OPA": "allow if {\n\tinput.attributes.request.http.method == \"GET\"\n\torders with data.none as 1\n}\norders if input.parsed_path[0] == \"orders\"\n",
	} {
		got := run(t, replay.Options{Live: policyOf(anyGET), Candidate: policyOf(rule), Files: files(
			entryOf(t, 0, envoy("GET", "/users", nil), true, nil), entryOf(t, 1, envoy("GET", "/orders", nil), true, nil),
		)})
		list := got.Evidence.GetPairs()[0].GetItems()[0]
		for i, item := range got.Items.Items {
			if i >= len(list.GetShown()) || list.GetShown()[i] != 1 || item.Kind == change.Condition && list.GetUntrue()[i] != 1 {
				t.Errorf("%s: %+v was shown by %v; want one request, and another one for which it was not true", name, item, list)
			}
		}
	}
}

// TestDuplicateKeys: what a server denies, because an object in the body has a key twice, is counted under a
// reason of its own, whichever way it was recorded, unless no policy reads bodies or duplicates are allowed.
func TestDuplicateKeys(t *testing.T) {
	const readsBody = "allow if input.parsed_body.role == \"guest\"\n"
	duplicate := envoy("POST", "/orders", nil)
	http := duplicate["attributes"].(map[string]any)["request"].(map[string]any)["http"].(map[string]any)
	http["headers"] = map[string]any{"content-type": "application/json"}
	http["body"] = `{"role":"admin","role":"guest"}`
	duplicate["parsed_body"] = map[string]any{"role": "guest"}
	lines := files(
		entryOf(t, 0, duplicate, true, nil),
		`{"attributes":{"request":{"http":{"method":"POST","path":"/","headers":{"content-type":"application/json"},"rawBody":"eyJyb2xlIjoiYWRtaW4iLCJyb2xlIjoiZ3Vlc3QifQ=="}}}}`,
	)
	for name, tt := range map[string]struct {
		live     string
		allowed  bool
		compared int64
	}{
		"they are refused":       {live: readsBody},
		"they are allowed":       {live: readsBody, allowed: true, compared: 2},
		"no policy reads a body": {live: anyGET, compared: 2},
	} {
		got := run(t, replay.Options{Live: policyOf(tt.live), Candidate: policyOf(tt.live), Files: lines, Strictness: replay.Strictness{DuplicateKeys: tt.allowed}})
		var want []replay.Skipped
		if tt.compared == 0 {
			want = []replay.Skipped{{Reason: "its body has a key twice, for which the server denies it (--duplicate-keys)", Entries: 2}}
		}
		if got.Compared != tt.compared || !cmp.Equal(got.Skipped, want) {
			t.Errorf("%s: %d compared, skipped %v; want %d, %v", name, got.Compared, got.Skipped, tt.compared, want)
		}
	}
}

// TestLastNameCounts: where a name comes twice in a document, policies see what encoding/json does.
func TestLastNameCounts(t *testing.T) {
	const get, post = `{"method":"GET","path":"/"}`, `{"method":"POST","path":"/"}`
	var lines []string
	for i, tt := range []struct {
		attributes string
		allowed    bool
	}{
		{`"request":{"http":` + get + `}`, true},
		{`"request":{"http":` + post + `,"http":` + get + `}`, true},
		{`"request":{"http":` + post + `},"request":{"http":` + get + `}`, true},
		{`"request":{"http":` + get + `},"request":{}`, false},
		{`"request":{"http":` + get + `},"request":{"http":[]}`, false},
		{`"request":{"http":` + get + `}},"attributes":{"request":{"http":` + post + `}`, false},
	} {
		lines = append(lines, fmt.Sprintf(`{"decision_id":"d%d","path":"envoy/authz/allow","result":%v,"input":{"attributes":{%s},"parsed_path":[],"parsed_query":{}}}`,
			i, tt.allowed, strings.ReplaceAll(tt.attributes, `"path":"/"`, `"path":"/","headers":{}`)))
	}
	got := run(t, replay.Options{Live: policyOf(anyGET), Candidate: policyOf(anyGET), Files: files(lines...)})
	if got.Drift.Same != int64(len(lines)) {
		t.Errorf("%d of %d are decided as recorded; skipped %v, groups %v", got.Drift.Same, len(lines), got.Skipped, got.Drift.Groups)
	}
}

// TestMissing counts entries that are not comparable by the field that a policy reads, and
// where it does.
func TestMissing(t *testing.T) {
	candidate := "allow if {\n\tinput.attributes.request.http.headers.authorization == \"x\"\n}\n" + ordersGET
	header := "/input/attributes/request/http/headers/"
	cut := envoy("GET", "/orders/1", nil)
	delete(cut, "parsed_path")
	other := envoy("GET", "/orders/1", nil)
	delete(other, "parsed_query")
	o := replay.Options{Live: policyOf(anyGET), Candidate: policyOf(candidate), Files: files(
		entryOf(t, 0, envoy("GET", "/a", nil), true, map[string]any{"erased": []string{header + "authorization"}}),
		entryOf(t, 1, envoy("GET", "/a", nil), true, map[string]any{"masked": []string{header + "authorization"}}),
		entryOf(t, 2, envoy("GET", "/a", nil), true, map[string]any{"masked": []string{header + "cookie"}}),
		entryOf(t, 3, cut, true, nil),
		entryOf(t, 4, nil, true, map[string]any{"erased": []string{"/input"}}),
		entryOf(t, 5, envoy("GET", "/a", nil), true, map[string]any{"path": "other/rule"}),
		entryOf(t, 6, cut, true, map[string]any{"erased": []string{"/input/parsed_path"}}),
		entryOf(t, 7, other, true, nil),
	)}
	got := run(t, o)
	want := []replay.MissingField{
		{Field: "input.attributes.request.http.headers.authorization", Side: replay.Candidate, Position: "auth.rego:4", Entries: 2},
		{Field: "input.parsed_path", Side: replay.Candidate, Position: "auth.rego:8", Entries: 2},
		{Field: "input", Side: replay.Live, Position: "auth.rego:3", Entries: 1},
		{Field: "input", Side: replay.Candidate, Position: "auth.rego:4", Entries: 1},
	}
	if diff := cmp.Diff(want, got.Missing); diff != "" {
		t.Errorf("missing, -want +got:\n%s", diff)
	}
	if got.Compared != 2 || got.Evidence.GetPairs()[0].GetCounts().GetDropped() != 5 {
		t.Errorf("%d compared, evidence %v; want 2, and 5 dropped", got.Compared, got.Evidence)
	}
}

// TestAsked counts a field as missing where the decision on an entry asked for it, and not where another
// decision would.
func TestAsked(t *testing.T) {
	const header = "/input/attributes/request/http/headers/"
	behindPath := "allow if {\n\tinput.parsed_path[0] == \"admin\"\n\tinput.attributes.request.http.headers.key == \"x\"\n}\n"
	for name, test := range map[string]struct {
		candidate, path, lost string
		missing               bool
	}{
		"on a path that is not taken":     {behindPath, "/users", header + "key", false},
		"on the path that is taken":       {behindPath, "/admin", header + "key", true},
		"all of the input":                {"allow if count(input) == 3\n", "/users", header + "key", true},
		"a key of the input":              {"allow if object.get(input, [\"operation\"], \"check\") == \"check\"\n", "/users", header + "key", false},
		"a key of the whole input":        {"allow if object.get(input, [input.none, \"a\"], \"check\") == \"check\"\nallow if object.get(input, [concat(\"\", [\"opera\", \"tion\"])], 1) != 2\n", "/users", header + "key", true},
		"what has the field":              {"allow if count(input.attributes.request.http.headers) < 9\n", "/users", header + "key", true},
		"what is in the field":            {behindPath, "/admin", "/input/attributes/request", true},
		"every header":                    {"allow if {\n\tsome v in input.attributes.request.http.headers\n\tv == \"x\"\n}\n", "/users", header + "other", true},
		"a position":                      {"allow if input.parsed_path[1] == \"x\"\n", "/users/1", "/input/parsed_path/1", true},
		"another position":                {"allow if input.parsed_path[0] == \"x\"\n", "/users/1", "/input/parsed_path/1", false},
		"a position that has moved":       {"allow if input.parsed_path[2] == \"x\"\n", "/users/1/2", "/input/parsed_path/1", true},
		"a position that has not moved":   {"allow if input.list[2] == \"x\"\n", "/users/1/2", "/input/list/1/x", false},
		"each position":                   {"allow if \"x\" in input.parsed_path\n", "/users/1", "/input/parsed_path/1", true},
		"a name with a slash":             {"allow if input.attributes.request.http.headers[\"a/b\"] == \"x\"\n", "/users", header + "a~1b", true},
		"a name with percent signs":       {"allow if input.attributes.request.http.headers[\"a/b\"] == \"x\"\n", "/users", header + "a%2Fb", true},
		"a name that only seems escaped":  {"allow if input.attributes.request.http.headers[\"a~1b\"] == \"x\"\n", "/users", header + "a~1b", true},
		"by a function":                   {"key(http) := http.headers.key\nallow if key(input.attributes.request.http) == \"x\"\n", "/users", header + "key", true},
		"by OPA, where a rule may":        {behindPath + "allow if other with data.none as 1\nother if input.operation == \"x\"\n", "/users", header + "key", true},
		"an error, which is OPA's":        {behindPath + "allow := 1 if input.parsed_path[0] == \"users\"\nallow := 2 if count(input.parsed_path) == 1\n", "/users", header + "key", true},
		"no other field by OPA":           {behindPath + "allow if other with data.none as 1\nother if input.operation == \"x\"\n", "/users", header + "other", false},
		"the end of an array, by OPA":     {"allow if other with data.none as 1\nother if input.parsed_path[2] == \"x\"\n", "/users/1/2", "/input/parsed_path/1", true},
		"an escaped name, by OPA":         {"allow if other with data.none as 1\nother if input.attributes.request.http.headers[\"a/b\"] == \"x\"\n", "/users", header + "a%2Fb", true},
		"a field that no document has":    {"allow if input.parsed_path[0] == \"x\"\n", "/users", "/input/parsed_path", true},
		"nothing that is no input":        {"allow if input.result == \"x\"\n", "/users", "/result", false},
		"nothing of what the policy asks": {"allow if true\n", "/users", "/input", false},
	} {
		t.Run(name, func(t *testing.T) {
			input := envoy("GET", test.path, map[string]any{"key": "x", "other": "y"})
			erased := map[string]any{"erased": []string{test.lost}}
			got := run(t, replay.Options{Live: policyOf("allow if true\n"), Candidate: policyOf(test.candidate), Files: files(
				entryOf(t, 0, input, true, nil), // whose decision is found by the others, which ask as well
				entryOf(t, 1, input, true, erased), entryOf(t, 2, input, true, erased),
			)})
			want := int64(3)
			if test.missing {
				want = 1
			}
			if got.Compared != want {
				t.Errorf("%d compared, missing %v, skipped %v; want %d", got.Compared, got.Missing, got.Skipped, want)
			}
			for _, m := range got.Missing {
				if m.Side != replay.Candidate || m.Entries != 2 {
					t.Errorf("missing is %+v; want 2 entries for the candidate alone", m)
				}
			}
		})
	}
}

// TestProjectMissing does not guess the project of an entry where a policy exempts one.
func TestProjectMissing(t *testing.T) {
	exempting := policyOf("allow if true\n")
	exempting.ExemptedProjects = []string{"p1"}
	got := run(t, replay.Options{Live: policyOf("allow if true\n"), Candidate: exempting, Files: files(
		entryOf(t, 0, envoy("GET", "/", nil), true, map[string]any{"erased": []string{"/input/attributes/contextExtensions"}}),
		entryOf(t, 1, envoy("GET", "/", nil), true, map[string]any{"masked": []string{"/input/attributes/contextExtensions/project_id"}}),
		entryOf(t, 2, envoy("GET", "/", nil), true, map[string]any{"masked": []string{"/input/attributes/contextExtensions/policy"}}),
	)})
	if got.Compared != 1 || len(got.Missing) != 2 || got.Missing[0].Side != replay.Candidate {
		t.Errorf("%d compared, missing %+v; want the one whose project is there", got.Compared, got.Missing)
	}
}

// TestAskedByOneSide counts a field for the policy that asked for it: what OPA reads for the one is not what
// the other asks for.
func TestAskedByOneSide(t *testing.T) {
	byOPA := policyOf("allow if other with data.none as 1\nother if input.attributes.request.http.headers.key == \"x\"\n")
	other := policyOf("allow if {\n\tinput.parsed_path[0] == \"admin\"\n\tinput.attributes.request.http.headers.key == \"x\"\n}\n")
	for _, o := range []replay.Options{{Live: byOPA, Candidate: other}, {Live: other, Candidate: byOPA}} {
		o.Files = files(
			entryOf(t, 0, envoy("GET", "/users", nil), true, map[string]any{"masked": []string{"/input/attributes/request/http/headers/key"}}),
			entryOf(t, 1, envoy("GET", "/users", nil), true, map[string]any{"timestamp": nil, "masked": []string{"/input/attributes/request/http/headers/key"}}),
		)
		got := run(t, o)
		want := replay.Live
		if o.Candidate == byOPA {
			want = replay.Candidate
		}
		if len(got.Missing) != 1 || got.Missing[0].Side != want || got.Missing[0].Entries != 2 {
			t.Errorf("missing are %+v; want one field for the %s, in both entries", got.Missing, want)
		}
	}
}

// TestTime decides each entry by its own time: that which the policy saw, if the log has it.
func TestTime(t *testing.T) {
	candidate := `allow if time.clock(time.now_ns())[0] == 23` + "\n"
	nanos := start.Add(-24 * time.Hour).UnixNano()
	got := run(t, replay.Options{Live: policyOf("allow if true\n"), Candidate: policyOf(candidate), Files: files(
		entryOf(t, 59, envoy("GET", "/before", nil), true, nil),
		entryOf(t, 60, envoy("GET", "/after", nil), true, nil),
		entryOf(t, 61, envoy("GET", "/clock", nil), true, map[string]any{"nd_builtin_cache": map[string]any{"time.now_ns": map[string]any{"[]": nanos}}}),
		entryOf(t, 62, envoy("GET", "/none", nil), true, map[string]any{"timestamp": nil}),
	)})
	groups := got.Evidence.GetPairs()[0].GetGroups()
	if got.Compared != 3 || len(groups) != 1 || groups[0].GetPattern() != "/after" {
		t.Errorf("%d compared, groups %v; want 3, and /after newly denied", got.Compared, groups)
	}
	if want := []replay.Skipped{{Reason: "its time is not known, and a policy reads the clock", Entries: 1}}; !cmp.Equal(got.Skipped, want) {
		t.Errorf("skipped are %v; want %v", got.Skipped, want)
	}
}

// TestWithoutTime compares entries without a time as long as no decision on them has looked at the clock.
func TestWithoutTime(t *testing.T) {
	undefined := policyOf("")
	undefined.Modules["auth.rego"] = "package envoy.authz\nallow if {\n\tinput.attributes.request.http.method == \"POST\"\n\ttime.now_ns() < 0\n}\nallow if input.attributes.request.http.method == \"GET\"\n"
	for name, candidate := range map[string]*adminpb.Policy{
		"decides":   policyOf("allow if {\n\tinput.attributes.request.http.method == \"POST\"\n\ttime.now_ns() < 0\n}\n"),
		"undefined": undefined,
		"fails":     policyOf("allow := 1 if input.attributes.request.http.method == \"POST\"\nallow := 2 if time.now_ns() > 0\n"),
	} {
		var lines []string
		for i, method := range []string{"GET", "GET", "POST", "POST"} {
			lines = append(lines, entryOf(t, i, envoy(method, "/", nil), true, map[string]any{"timestamp": nil}))
		}
		got := run(t, replay.Options{Live: policyOf("allow if true\n"), Candidate: candidate, Files: files(lines...)})
		want := int64(2)
		if name == "fails" {
			want = 0 // GET looks at the clock there too
		}
		if got.Compared != want {
			t.Errorf("%s: %d compared, skipped %v; want %d", name, got.Compared, got.Skipped, want)
		}
	}
}

// TestDrift compares what was decided with what the live policy decides now.
func TestDrift(t *testing.T) {
	got := run(t, replay.Options{Live: policyOf(ordersGET), Candidate: policyOf(ordersGET), Versions: replay.Versions{LiveRevision: "r2"}, Files: files(
		entryOf(t, 0, envoy("GET", "/orders", nil), true, nil),
		entryOf(t, 1, envoy("GET", "/users", nil), true, nil),
		entryOf(t, 2, envoy("GET", "/orders", nil), map[string]any{"allowed": true}, map[string]any{"bundles": map[string]any{"web": map[string]any{"revision": "r2"}}}),
		entryOf(t, 3, envoy("GET", "/users", nil), true, map[string]any{"masked": []string{"/result/x"}}),
		entryOf(t, 4, envoy("GET", "/users", nil), nil, map[string]any{"error": map[string]any{"code": "x"}, "bundles": nil}),
	)})
	want := replay.Drift{Known: 4, Same: 1, Groups: []replay.DriftGroup{
		{Kind: authz.LiveFailed, Method: "GET", Path: "/users", Entries: 1, DecisionID: "d4"},
		{Kind: authz.NewlyDenied, Method: "GET", Path: "/users", Revision: "r1", Other: true, Entries: 1, DecisionID: "d1"},
		{Kind: authz.ResponseChanged, Method: "GET", Path: "/orders", Revision: "r2", Entries: 1, DecisionID: "d2"},
	}}
	if diff := cmp.Diff(want, got.Drift); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCheckRequests replays requests that nobody decided.
func TestCheckRequests(t *testing.T) {
	line := `{"attributes":{"request":{"http":{"method":"GET","path":"/users/1?q=secret","headers":{"a":"b"}}}}}`
	got := run(t, replay.Options{Live: policyOf(anyGET), Candidate: policyOf(ordersGET), Files: files(line, line, `{"attributes":{"request":7}}`)})
	if c := got.Evidence.GetPairs()[0].GetCounts(); got.Compared != 2 || c.GetNewlyDenied() != 2 || got.Drift.Known != 0 {
		t.Errorf("%d compared, counts %v, skipped %v; want two newly denied", got.Compared, c, got.Skipped)
	}
	if encoded, _ := json.Marshal(got); bytes.Contains(encoded, []byte("secret")) {
		t.Errorf("the query is in the result: %s", encoded)
	}
}

// TestServices does not guess what an external service would say.
func TestServices(t *testing.T) {
	candidate := policyOf(anyGET)
	candidate.Rules = append(candidate.Rules, &adminpb.PolicyRule{RuleId: "usage", Filter: &adminpb.PolicyRule_ExternalService{
		ExternalService: &adminpb.ExternalServiceFilter{EndpointUrl: "https://usage.example"},
	}})
	got := run(t, replay.Options{Live: policyOf(anyGET), Candidate: candidate, Files: files(
		entryOf(t, 0, envoy("GET", "/a", nil), true, nil), entryOf(t, 1, envoy("POST", "/a", nil), false, nil),
	)})
	if got.Compared != 1 || len(got.Skipped) != 1 {
		t.Errorf("%d compared, skipped %v; want the request that is denied before the service is asked", got.Compared, got.Skipped)
	}
}

// TestBroken counts what cannot be read, and fails if that was asked for.
func TestBroken(t *testing.T) {
	good := entryOf(t, 0, envoy("GET", "/a", nil), true, nil)
	o := replay.Options{Live: policyOf(anyGET), Candidate: policyOf(anyGET), Files: files(good, good[:80], "starting", good)}
	got := run(t, o)
	if got.Compared != 2 || got.Broken != 1 || got.Others != 1 || got.BrokenRecords[0].Record != 2 {
		t.Errorf("%d compared, %d broken %v, %d others; want 2, 1 (record 2) and 1", got.Compared, got.Broken, got.BrokenRecords, got.Others)
	}
	o.Strict = true
	if _, err := replay.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "log: record 2: ") {
		t.Errorf("the error is %v; want that of record 2", err)
	}
}

// TestInterrupted returns what was counted so far.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	line := entryOf(t, 0, envoy("GET", "/a", nil), true, nil) + "\n"
	endless := replay.File{Name: "endless", Open: func() (io.ReadCloser, error) { return io.NopCloser(&repeating{line: line}), nil }}
	got, err := replay.Run(ctx, replay.Options{
		Live: policyOf(anyGET), Candidate: policyOf(anyGET), Files: []replay.File{endless}, Workers: 2, Versions: replay.Versions{LiveEtag: "a", CandidateEtag: "b"},
		Progress: func(n int64) {
			if n > 1000 {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || got.Compared <= 1000 || got.Evidence.GetPairs()[0].GetCounts().GetBothAllow()+got.Evidence.GetPairs()[0].GetCounts().GetBothDeny() != got.Compared {
		t.Errorf("error %v with %d compared; want what was counted before the end", err, got.Compared)
	}
}

// repeating is a line without end.
type repeating struct {
	line string
	rest string
}

func (r *repeating) Read(p []byte) (int, error) {
	if r.rest == "" {
		r.rest = r.line
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestWitnesses: of each group there is one, whatever form its entries have, or a reason why there
// is none.
func TestWitnesses(t *testing.T) {
	check := func(path, more string) string {
		return `{"attributes":{"request":{"http":{"method":"GET","path":"` + path + `","headers":{"a":"` + more + `"}}}}}`
	}
	o := replay.Options{Live: policyOf(anyGET), Candidate: policyOf(ordersGET), Examples: true, Files: files(
		check("/users/1", ""), entryOf(t, 1, envoy("GET", "/teams/1", nil), true, nil), check("/orders/1", ""),
		check("/large", strings.Repeat("x", 70<<10)),
	)}
	got := run(t, o)
	var inputs []string
	for _, w := range got.Examples {
		inputs = append(inputs, w.Path)
		var document struct {
			ParsedPath []string `json:"parsed_path"`
		}
		if err := json.Unmarshal(w.Input, &document); err != nil || len(document.ParsedPath) != 2 {
			t.Errorf("%s: the input is %s (%v); want a whole document", w.Path, w.Input, err)
		}
	}
	if diff := cmp.Diff([]string{"/users/*", "/teams/*"}, inputs); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
	if len(got.WithoutExample) != 1 || got.WithoutExample[0].Path != "/large" || !strings.Contains(got.WithoutExample[0].Reason, "more than the 65536 of a test") {
		t.Errorf("without an example: %+v; want /large, since it is too large", got.WithoutExample)
	}
	o.Candidate = policyOf("allow := 7 if input.parsed_path[0] == \"teams\"\n" + anyGET)
	if got := run(t, o); len(got.WithoutExample) != 1 || got.WithoutExample[0].DecisionID != "d1" || !strings.HasPrefix(got.WithoutExample[0].Reason, "one of the policies fails there") {
		t.Errorf("without an example: %+v; want the group in which the candidate fails", got.WithoutExample)
	}
	o.Examples = false
	if got := run(t, o); len(got.Examples)+len(got.WithoutExample) > 0 {
		t.Error("there are examples, though none were asked for")
	}
}
