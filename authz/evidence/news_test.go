package evidence_test

import (
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/cmd/testkit"
)

// TestNewsOfATallyAreNotLost: the first comparison is fresh though the tally was published before it had any, and
// what is new while a publication is made is told with the next one.
func TestNewsOfATallyAreNotLost(t *testing.T) {
	tally := evidence.NewTally(evidence.Content{Experiment: "policies/web/experiments/next", UID: "uid", Etag: "2"}, nil, evidence.NewPatterns())
	during := func(*evidence.Sum) {}
	ledger := evidence.NewLedger(time.Now())
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "1", Refresh: func(s *evidence.Sum) { during(s) }}})
	publish := func() {
		for _, due := range ledger.Due(time.Second) {
			ledger.Published(due.Tally, due.Serial)
		}
	}
	publish()
	allowed := authz.Decision{Effect: authz.Allow}
	tally.Count("1", evidence.Comparison{
		Request: &authz.Request{Method: "GET", Path: "/"}, Pattern: tally.Patterns().Of("GET", "/"),
		Outcome: evidence.NewOutcome(authz.Unchanged, allowed, allowed, nil),
	})
	if !ledger.Fresh() {
		t.Error("the first comparison is not fresh, for nothing was published before it")
	}
	publish()
	if ledger.Fresh() || ledger.Changed() {
		t.Error("there is something new after all was published")
	}
	marked := make(chan struct{})
	during = func(*evidence.Sum) {
		go func() { defer close(marked); tally.MarkChanged() }()
	}
	publish()
	testkit.Closed(t, "the evidence to be marked", marked)
	if !ledger.Changed() {
		t.Error("what became known while evidence was asked for is lost")
	}
	during = func(*evidence.Sum) {}
	publish()
	if ledger.Changed() {
		t.Error("it is told twice")
	}
}
