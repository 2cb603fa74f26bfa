package sidecar_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// undecodable is the state of a policy that cannot be read, or of a resource of it.
func undecodable(sequence int64, resource string) authz.PolicyState {
	return authz.PolicyState{Undecodable: []authz.Undecodable{{
		Resource: resource, Sequence: sequence, Err: errors.New("cannot parse invalid wire-format data"),
	}}}
}

const otherPolicy = "projects/p1/locations/l1/policies/other"

// reports expects that a node names a resource as not applied since a change.
func reports(t *testing.T, n *adminpb.Node, resource, sequence string) {
	t.Helper()
	for _, d := range status.FromProto(n.Error).Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if ok && info.Reason == authz.ReasonNotApplied && info.Metadata["resource"] == resource && info.Metadata["sequence"] == sequence {
			return
		}
	}
	t.Errorf("the node does not report %s since %s: %v", resource, sequence, n.Error)
}

// requestTo returns a request whose route names a policy.
func requestTo(policy authz.PolicyID, method string) *authz.Request {
	r := request(method, nil)
	r.Policy = policy
	return r
}

// checkLastGood expects that web is decided by its last good version, and that other, which
// was never read, denies.
func checkLastGood(t *testing.T, s *sidecar.Sidecar) {
	t.Helper()
	if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow || d.Failure != "" {
		t.Errorf("got %+v; want the last good policy's answer", d)
	}
	if d := s.Check(t.Context(), request("POST", nil)); d.Effect != authz.Deny {
		t.Errorf("got %+v; want the last good policy's answer", d)
	}
	if d := s.Check(t.Context(), requestTo("other", "GET")); d.Effect != authz.Deny || d.Failure != authz.FailureNotReady {
		t.Errorf("got %+v; want the denial of a policy that was never read", d)
	}
}

// TestAnUndecodablePolicyIsItsOwnFailure: it is decided by its last good version, one that
// never was read denies, and every other policy is followed.
func TestAnUndecodablePolicyIsItsOwnFailure(t *testing.T) {
	t.Parallel()
	meter := newMeter()
	file := filepath.Join(t.TempDir(), "snapshot")
	config := func(c *sidecar.Config) { c.Meters, c.SnapshotFile, c.Default = meter, file, authz.Allow }
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET)), Experiments: []*adminpb.PolicyExperiment{experiment("e", "e", allowIf(onlyPOST))}})
	feed.put(otherPolicy, undecodable(2, otherPolicy))
	third := location.Policy("third")
	t.Run("followed", func(t *testing.T) {
		s, _ := start(t, feed, config)
		testkit.Closed(t, "s is ready", s.Ready())
		before := meter.count(t, "understudy.apply.failures")
		feed.put(webName, undecodable(3, webName))
		renamed := policy("t", allowIf(onlyPOST))
		renamed.Name = string(third)
		last := feed.put(third, authz.PolicyState{Policy: renamed})
		n := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.AppliedSequence == last })
		reports(t, n, webName, "3")
		reports(t, n, otherPolicy, "2")
		checkLastGood(t, s)
		if more := meter.count(t, "understudy.apply.failures") - before; more != 1 {
			t.Errorf("%d failures were counted", more)
		}
		if got := s.Status().NotApplied; !slices.Equal(got, []string{webName, otherPolicy}) {
			t.Errorf("the status names %v", got)
		}
		if d := s.Check(t.Context(), requestTo("third", "POST")); d.Effect != authz.Allow {
			t.Errorf("got %+v; want the answer of a policy that changed later", d)
		}
	})
	t.Run("started again", func(t *testing.T) {
		s, _ := start(t, feed, config)
		testkit.Closed(t, "s is ready", s.Ready())
		checkLastGood(t, s)
	})
	feed.setDown(true)
	t.Run("started without the store", func(t *testing.T) {
		s, _ := start(t, feed, config)
		testkit.Closed(t, "s is ready", s.Ready())
		checkLastGood(t, s)
	})
	feed.setDown(false)
	t.Run("fixed", func(t *testing.T) {
		s, _ := start(t, feed, config)
		testkit.Closed(t, "s is ready", s.Ready())
		feed.put(otherPolicy, authz.PolicyState{})
		last := feed.put(webName, authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))})
		feed.awaitNode(t, func(n *adminpb.Node) bool { return n.AppliedSequence == last && n.Error == nil })
		if d := s.Check(t.Context(), requestTo("other", "GET")); d.Effect != authz.Allow || !d.Default {
			t.Errorf("got %+v; want the default decision of a deleted policy", d)
		}
		if got := s.Status().NotApplied; len(got) > 0 {
			t.Errorf("the status names %v", got)
		}
	})
}

// TestAnUndecodableExperimentStopsNothing: its policy and its neighbours go on. A later
// change of the policy is not reported as failed, for the record is older.
func TestAnUndecodableExperimentStopsNothing(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	bad := webName + "/experiments/bad"
	state := func(etag, live string) authz.PolicyState {
		s := undecodable(1, bad)
		s.Policy, s.Experiments = policy(etag, live), []*adminpb.PolicyExperiment{experiment("e", "e", allowIf(onlyPOST))}
		return s
	}
	feed.put(webName, state("a", allowIf(onlyGET)))
	s, rec := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	last := feed.put(webName, state("b", allowIf(onlyPOST)))
	n := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.AppliedSequence == last })
	reports(t, n, bad, "1")
	if d := s.Check(t.Context(), request("POST", nil)); d.Effect != authz.Allow {
		t.Errorf("got %+v; want the new policy's answer", d)
	}
	if records := rec.await(t, 1); records[0].attributes["understudy.experiment.name"] != webName+"/experiments/e" {
		t.Errorf("the records are %v", records)
	}
}

// FuzzPolicyState decodes what a store may hold: whatever that is, there is a policy under
// its own name, one that cannot be decoded, or none.
func FuzzPolicyState(f *testing.F) {
	for _, m := range []proto.Message{policy("a", allowIf(onlyGET)), &adminpb.Policy{Name: otherPolicy}, experiment("e", "e", "")} {
		value, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value, value)
		f.Add(value[:len(value)-1], []byte{})
	}
	f.Fuzz(func(t *testing.T, live, trial []byte) {
		const e = webName + "/experiments/e"
		state := authz.DecodePolicyState(authz.StoredResource{Name: webName, Value: live},
			[]authz.StoredResource{{Name: e, Value: trial}})
		if state.Policy != nil && state.Policy.Name != webName {
			t.Errorf("the policy of another name was read: %s", state.Policy.Name)
		}
		for _, experiment := range state.Experiments {
			if experiment.Name != e {
				t.Errorf("the experiment of another name was read: %s", experiment.Name)
			}
		}
		for _, u := range state.Undecodable {
			if u.Resource != webName && u.Resource != e || u.Err == nil {
				t.Errorf("undecodable: %+v", u)
			}
		}
	})
}
