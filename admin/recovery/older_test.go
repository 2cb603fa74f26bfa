package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/recovery"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

const webName = string(lostLocation) + "/policies/web"

// onAnOlderStore runs a test on both stores: each has a policy web of which a sidecar has saved
// a newer version, with an experiment, and an equal policy shop.
func onAnOlderStore(t *testing.T, test func(*testing.T, lostStore)) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			store := b.open(t)
			l := lostStore{store: store, api: newServer(t, store)}
			create(t, l.api, "web")
			create(t, l.api, "shop")
			saved, err := store.Load(t.Context(), authz.Scope{Location: lostLocation})
			if err != nil {
				t.Fatal(err)
			}
			for name, state := range saved.Policies {
				state.Sequence++
				if name == authz.PolicyName(webName) {
					state.Policy = newerVersion(t, state.Policy)
					state.Experiments = []*adminpb.PolicyExperiment{{
						Name: string(name) + "/experiments/saved", Etag: `W/"e"`, Policy: &adminpb.Policy{Name: string(name)},
						PreviewMetadata: &adminpb.PolicyPreviewMetadata{State: adminpb.PolicyPreviewMetadata_ACTIVE},
					}}
				}
				saved.Policies[name] = state
			}
			l.saved = saved
			test(t, l)
		})
	}
}

// newerVersion returns a policy with another content.
func newerVersion(t *testing.T, p *adminpb.Policy) *adminpb.Policy {
	t.Helper()
	p = proto.CloneOf(p)
	p.Modules = map[string]string{"newer.rego": "package newer"}
	if err := admin.NameContent(p, ""); err != nil {
		t.Fatal(err)
	}
	return p
}

func (l lostStore) web(t *testing.T) authz.PolicyState {
	t.Helper()
	return l.load(t).Policies[authz.PolicyName(webName)]
}

func TestRestoreNewer(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		r := l.recovery()
		r.ValidateOnly = true
		names, err := r.RestoreNewer(t.Context())
		checkNames(t, names, err, "web")
		if len(l.web(t).Policy.Modules) > 0 {
			t.Error("something was stored, and was to be shown only")
		}
		names, err = l.recovery().RestoreNewer(t.Context())
		checkNames(t, names, err, "web")
		saved, now := l.saved.Policies[authz.PolicyName(webName)], l.web(t)
		if !proto.Equal(now.Policy, saved.Policy) || now.Sequence <= saved.Sequence || len(now.Experiments) != 1 {
			t.Errorf("it was stored as %v", now)
		}
		if _, err := l.api.GetPolicyRevision(t.Context(), &adminpb.GetPolicyRevisionRequest{Name: saved.Policy.Revision}); err != nil {
			t.Errorf("its revision: %v", err)
		}
		names, err = l.recovery().RestoreNewer(t.Context())
		checkNames(t, names, err)
	})
}

// changing is a store in which a policy changes after it was read.
type changing struct {
	admin.Store
	change func()
}

func (c changing) Get(ctx context.Context, keys ...admin.Key) ([]admin.Record, error) {
	records, err := c.Store.Get(ctx, keys...)
	c.change()
	return records, err
}

func TestRestoreNewerReplacesNoChange(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		r := l.recovery()
		r.Store = changing{l.store, func() {
			if _, err := l.api.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{
				Policy: &adminpb.Policy{Name: webName, DisplayName: "hot fix"},
			}); err != nil {
				t.Error(err)
			}
		}}
		if _, err := r.RestoreNewer(t.Context()); !errors.Is(err, recovery.ErrChanged) {
			t.Errorf("got %v", err)
		}
		if got := l.web(t).Policy.GetDisplayName(); got != "hot fix" {
			t.Errorf("there is %q now", got)
		}
	})
}

func TestAcceptOlder(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		before := l.web(t)
		names, err := l.recovery().AcceptOlder(t.Context())
		checkNames(t, names, err, "web")
		if got := names[0].State.Policy; !proto.Equal(got, before.Policy) {
			t.Errorf("it says that sidecars follow %v, want what the store has", got)
		}
		now := l.web(t)
		if !proto.Equal(now.Policy, before.Policy) || now.Sequence <= l.saved.Policies[authz.PolicyName(webName)].Sequence {
			t.Errorf("it is %v", now)
		}
		names, err = l.recovery().AcceptOlder(t.Context())
		checkNames(t, names, err)
	})
}

// TestAFileThatIsNotTheNewestRestoresNothing: another sidecar decides by a newer version, which would be lost.
func TestAFileThatIsNotTheNewestRestoresNothing(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		report := func(reason, resource string, sequence int64) {
			t.Helper()
			st, err := status.New(codes.DataLoss, "older").WithDetails(&errdetails.ErrorInfo{
				Reason: reason, Metadata: map[string]string{"resource": resource, "sequence": fmt.Sprint(sequence)},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.store.Heartbeat(t.Context(), &adminpb.Node{Name: string(lostLocation) + "/nodes/ahead", Error: st.Proto()}); err != nil {
				t.Fatal(err)
			}
		}
		saved := l.saved.Policies[authz.PolicyName(webName)].Sequence
		before := l.web(t)
		report(authz.ReasonStale, webName, saved+1)
		if _, err := l.recovery().RestoreNewer(t.Context()); !errors.Is(err, recovery.ErrNotNewest) || !strings.Contains(err.Error(), "of web: use the file of the sidecar ahead") {
			t.Errorf("with an older file it is %v", err)
		}
		report(authz.ReasonMissing, string(lostLocation.Policy("lost")), 1)
		if _, err := l.recovery().RestoreMissing(t.Context()); !errors.Is(err, recovery.ErrNotNewest) {
			t.Errorf("with a file that lacks a policy it is %v", err)
		}
		if now := l.web(t); now.Sequence != before.Sequence {
			t.Errorf("it has stored %v", now)
		}
		report(authz.ReasonStale, webName, saved)
		names, err := l.recovery().RestoreNewer(t.Context())
		checkNames(t, names, err, "web")
	})
}

// TestAcceptOlderAsReported does without a snapshot file.
func TestAcceptOlderAsReported(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		before := l.web(t)
		st, err := status.New(codes.DataLoss, "older").WithDetails(
			&errdetails.ErrorInfo{Reason: authz.ReasonStale, Metadata: map[string]string{"resource": webName}},
			&errdetails.ErrorInfo{Reason: authz.ReasonMissing, Metadata: map[string]string{"resource": string(lostLocation.Policy("shop"))}},
			&errdetails.ErrorInfo{Reason: authz.ReasonStale, Metadata: map[string]string{"resource": string(lostLocation.Policy("none"))}},
		)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.store.Heartbeat(t.Context(), &adminpb.Node{Name: string(lostLocation) + "/nodes/n", Error: st.Proto()}); err != nil {
			t.Fatal(err)
		}
		r := l.recovery()
		r.Saved = authz.Update{}
		names, err := r.AcceptOlder(t.Context())
		checkNames(t, names, err, "web")
		if now := l.web(t); !proto.Equal(now.Policy, before.Policy) || now.Sequence <= before.Sequence {
			t.Errorf("it is %v", now)
		}
	})
}

// TestALostDeletion: what a sidecar has saved of a policy is that it was deleted.
func TestALostDeletion(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		l.saved.Policies[authz.PolicyName(webName)] = authz.PolicyState{Sequence: l.saved.Policies[authz.PolicyName(webName)].Sequence}
		names, err := l.recovery().AcceptLoss(t.Context())
		checkNames(t, names, err)
		names, err = l.recovery().RestoreNewer(t.Context())
		checkNames(t, names, err, "web")
		if state := l.web(t); !state.Gone() {
			t.Errorf("it is %v", state)
		}
		if _, err := l.api.UndeletePolicy(t.Context(), &adminpb.UndeletePolicyRequest{Name: webName}); err != nil {
			t.Error(err)
		}
	})
}

// TestALostUndelete: the store has a policy as deleted that a sidecar has live.
func TestALostUndelete(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		if _, err := l.api.DeletePolicy(t.Context(), &adminpb.DeletePolicyRequest{Name: webName}); err != nil {
			t.Fatal(err)
		}
		saved := l.saved.Policies[authz.PolicyName(webName)]
		saved.Sequence = l.web(t).Sequence + 1
		l.saved.Policies[authz.PolicyName(webName)] = saved
		names, err := l.recovery().RestoreNewer(t.Context())
		checkNames(t, names, err, "web")
		if state := l.web(t); !proto.Equal(state.Policy, saved.Policy) {
			t.Errorf("it is %v", state)
		}
	})
}
