package sidecar_test

import (
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// TestARequestIsFoundByItsOwnID: records and the decision log have the x-request-id,
// cleaned, unless a mask hides it in the event.
func TestARequestIsFoundByItsOwnID(t *testing.T) {
	for name, c := range map[string]struct {
		log   string
		event bool
	}{
		"no masks":      {"", true},
		"another mask":  {`mask contains "/input/attributes/request/http/headers/x-secret"`, true},
		"it is masked":  {`mask contains "/input/attributes/request/http/headers/x-request-id"`, false},
		"all is masked": {`mask contains "/input"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			feed, events := newFeed(), newRecording()
			p := policy("a", allowIf("true"))
			p.Modules["log.rego"] = "package system.log\n" + c.log
			feed.put(webName, authz.PolicyState{Policy: p, Experiments: []*adminpb.PolicyExperiment{experiment("e", "e", allowIf("false"))}})
			s, previews := start(t, feed, logTo(events))
			testkit.Closed(t, "s is ready", s.Ready())
			r := request("GET", map[string]any{"attributes": map[string]any{"request": map[string]any{"http": map[string]any{
				"headers": map[string]any{"x-request-id": "the-\nid", "x-secret": "s"},
			}}}})
			r.RequestID = func() string { return "the-\nid" + strings.Repeat("é", 200) }
			s.Check(t.Context(), r)
			want := "the-\uFFFDid" + strings.Repeat("é", 121)
			if got := previews.await(t, 1)[0].attributes["understudy.request_id"]; got != want {
				t.Errorf("the record has %q, want %q", got, want)
			}
			event := events.await(t, 1)[0]
			if got := event.attributes["understudy.request_id"] == want; got != c.event {
				t.Errorf("the attributes of the event are %v", event.attributes)
			}
			if got := strings.Contains(event.body, `"request_id":"`+want+`"`); got != c.event {
				t.Errorf("the event is %s", event.body)
			}
		})
	}
}
