package extauthz_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// twice decides a request here and in a rehearsal process, which has to decide alike.
type twice struct {
	t         *testing.T
	here      *authz.Policy
	there     *supervisor.RemotePolicy
	decisions map[authz.Failure]int
}

// Check implements extauthz.Decider.
func (d twice) Check(ctx context.Context, r *authz.Request) authz.Decision {
	want := d.here.Decide(ctx, r, authz.Conditions{Shadow: true})
	answers := make(chan authz.Decision, 1)
	err := d.there.Decide(supervisor.DecisionRequest{
		Prepare: func() (wire.DecisionRequest, bool) { return d.question(ctx, r), true },
		Done: func(got authz.Decision, err error) {
			if err != nil {
				d.t.Error(err)
			}
			answers <- got
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	got := testkit.Receive(d.t, "the comparison", answers)
	if !authz.SameDecision(want, got) || !reflect.DeepEqual(want.Value, got.Value) || want.RulePath() != got.RulePath() ||
		want.Default != got.Default {
		d.t.Errorf("the process decides %#v, want %#v", got, want)
	}
	d.decisions[want.Failure]++
	return want
}

// question has the bytes of a request or, if none were sent, its input document.
func (d twice) question(ctx context.Context, r *authz.Request) (q wire.DecisionRequest) {
	q = wire.DecisionRequest{ID: r.ID, Time: r.Time, Timeout: time.Hour}
	if r.Sent != nil {
		q.Asked = wire.Check(r.Sent.CheckRequest(d.here.MayReadBody()))
		return q
	}
	document := wire.Document{Facts: wire.FactsOf(r)}
	defer func() { q.Asked = document }()
	reading := authz.NewBodyMemory(0).ReadOffPath(ctx, r)
	defer reading.End()
	input, err := d.document(r, reading)
	if bad := (*authz.BadRequest)(nil); errors.As(err, &bad) {
		document.Unreadable = bad
	} else if err != nil {
		d.t.Error(err)
	} else if document.Input, err = rego.AppendInput([]byte{}, input); err != nil {
		d.t.Error(err)
	}
	return q
}

// document is as much of the input as the policy reads of the body.
func (d twice) document(r *authz.Request, reading *authz.ReadBudget) (rego.Input, error) {
	if d.here.MayRead("parsed_body") {
		return r.Input(reading)
	}
	return r.WithoutBody(reading, d.here.MayRead("truncated_body"))
}

// TestTheRehearsalProcessDecidesAlike has random policies decide random requests in this
// process and in the rehearsal process, which knows no more of a request than is read.
func TestTheRehearsalProcessDecidesAlike(t *testing.T) {
	process := supervisortest.Reading(t, checktest.HealthService(), 0)
	policies, decisions := testkit.Cases(60), make(map[authz.Failure]int)
	for seed := range uint64(policies) {
		policy := seededPolicy(t, seed)
		here, err := authz.Compile(t.Context(), policy)
		if err != nil {
			t.Fatal(err)
		}
		there := process.NewRemotePolicy(policy, supervisor.Options{Name: "experiment"})
		testkit.Closed(t, "there is ready", there.Ready())
		facts, err := there.Facts()
		if err != nil || !reflect.DeepEqual(facts, here.Facts()) {
			t.Errorf("seed %d: the facts are %+v, %v; want %+v", seed, facts, err, here.Facts())
		}
		s := servertest.New(t, twice{t, here, there, decisions})
		for n := range uint64(conformanceRequests) {
			request := seededRequest(t, seed, n)
			check(t, s, request)
			checkWire(t, s, request)
			if t.Failed() {
				t.Fatalf("seed %d, request %d:\n%s\n%s", seed, n, policyText(policy), request)
			}
		}
		there.Close()
	}
	t.Log(decisions)
	for _, failure := range []authz.Failure{"", authz.FailureRequest, authz.FailureUndefined, authz.FailureError, authz.FailureType} {
		if decisions[failure] == 0 {
			t.Errorf("no decision was of the kind %q: the policies do not reach it", failure)
		}
	}
}
