package recovery_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"understudy/admin"
	"understudy/admin/recovery"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

const lostLocation = authz.Location("projects/lost/locations/l1")

// lostStore is a location whose store lost what a sidecar has saved.
type lostStore struct {
	saved authz.Update
	// store is empty, and api is on it.
	store openStore
	api   *admin.Server
}

// onALoss runs a test on both stores: a server fills one with the policies web, which
// has an ACTIVE experiment and another one, and shop; the loss is an empty one.
func onALoss(t *testing.T, test func(*testing.T, lostStore)) {
	full, empty := backends(t), backends(t)
	for i := range full {
		t.Run(full[i].name, func(t *testing.T) {
			before := full[i].open(t)
			api := newServer(t, before)
			for _, id := range []string{"web", "shop"} {
				create(t, api, id)
			}
			for _, id := range []string{"active", "idle"} {
				_, err := api.CreatePolicyExperiment(t.Context(), &adminpb.CreatePolicyExperimentRequest{
					Parent: string(lostLocation.Policy("web")), PolicyExperimentId: id,
					PolicyExperiment: &adminpb.PolicyExperiment{Policy: &adminpb.Policy{
						Name: string(lostLocation.Policy("web")), DisplayName: id,
					}},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := api.StartPreviewPolicyExperiment(t.Context(), &adminpb.StartPreviewPolicyExperimentRequest{
				Name: string(lostLocation.Policy("web")) + "/experiments/active",
			}); err != nil {
				t.Fatal(err)
			}
			saved, err := before.Load(t.Context(), authz.Scope{Location: lostLocation})
			if err != nil {
				t.Fatal(err)
			}
			after := empty[i].open(t)
			test(t, lostStore{saved, after, newServer(t, after)})
		})
	}
}

// TestRestoreOfWhatCouldNotBeRead: a policy of which there is only the name is left out.
func TestRestoreOfWhatCouldNotBeRead(t *testing.T) {
	onALoss(t, func(t *testing.T, l lostStore) {
		broken := lostLocation.Policy("broken")
		l.saved.Policies[broken] = authz.PolicyState{Undecodable: []authz.Undecodable{{Resource: string(broken)}}}
		names, err := l.recovery().Restore(t.Context())
		checkNames(t, names, err, "shop", "web")
	})
}

// underAnotherNumber compares what was stored again.
var underAnotherNumber = cmpopts.IgnoreFields(authz.PolicyState{}, "Sequence")

func newServer(t *testing.T, store admin.Store) *admin.Server {
	t.Helper()
	s, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, api *admin.Server, id string) {
	t.Helper()
	if _, err := api.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{
		Parent: string(lostLocation), PolicyId: id, Policy: &adminpb.Policy{DisplayName: "new " + id},
	}); err != nil {
		t.Fatal(err)
	}
}

func (l lostStore) recovery() recovery.Recovery {
	return recovery.Recovery{Store: l.store, Location: lostLocation, Saved: l.saved}
}

// load returns what the store has now, and what of it a follower that had nothing gets.
func (l lostStore) load(t *testing.T) authz.Update {
	t.Helper()
	loaded, err := l.store.Load(t.Context(), authz.Scope{Location: lostLocation})
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Cursor == (authz.Cursor{}) {
		return loaded
	}
	followed, err := l.store.Next(t.Context(), authz.Scope{Location: lostLocation}, authz.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(loaded, followed, protocmp.Transform()); diff != "" {
		t.Errorf("a follower gets something else: %s", diff)
	}
	return loaded
}

func checkNames(t *testing.T, versions []recovery.Version, err error, ids ...authz.PolicyID) {
	t.Helper()
	var got []authz.PolicyName
	for _, v := range versions {
		got = append(got, v.Name)
	}
	var want []authz.PolicyName
	for _, id := range ids {
		want = append(want, lostLocation.Policy(id))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		r := l.recovery()
		r.ValidateOnly = true
		names, err := r.Restore(t.Context())
		checkNames(t, names, err, "shop", "web")
		if loaded := l.load(t); len(loaded.Policies) > 0 || loaded.Cursor.Sequence > 0 {
			t.Fatalf("a rehearsal stored %+v", loaded)
		}
		names, err = l.recovery().Restore(t.Context())
		checkNames(t, names, err, "shop", "web")
		if diff := cmp.Diff(l.saved.Policies, l.load(t).Policies, protocmp.Transform(), underAnotherNumber); diff != "" {
			t.Errorf("what was restored is not what was saved: %s", diff)
		}
		web := l.saved.Policies[lostLocation.Policy("web")]
		revision, err := l.api.GetPolicyRevision(t.Context(), &adminpb.GetPolicyRevisionRequest{Name: web.Policy.Revision})
		if err != nil || revision.Snapshot.DisplayName != "new web" {
			t.Errorf("the live revision is %v, %v", revision, err)
		}
		// The version that was previewed can be committed under the etags that records name.
		if _, err := l.api.CommitPolicyExperiment(t.Context(), &adminpb.CommitPolicyExperimentRequest{
			Name: web.Experiments[0].Name, Etag: web.Experiments[0].Etag, ParentEtag: web.Policy.Etag,
		}); err != nil {
			t.Errorf("committing the restored experiment: %v", err)
		}
		if _, err := l.recovery().Restore(t.Context()); !errors.Is(err, recovery.ErrNotEmpty) {
			t.Errorf("restoring over what is there: %v", err)
		}
	})
}

func TestRestoreIsRefusedBesideADeletedPolicy(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		create(t, l.api, "other")
		if _, err := l.api.DeletePolicy(t.Context(), &adminpb.DeletePolicyRequest{Name: string(lostLocation.Policy("other"))}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.recovery().Restore(t.Context()); !errors.Is(err, recovery.ErrNotEmpty) {
			t.Errorf("got %v", err)
		}
	})
}

// TestRestoreLeavesOutWhatWasNeverRead: only its name is saved. Its loss can be accepted.
func TestRestoreLeavesOutWhatWasNeverRead(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		unread := lostLocation.Policy("unread")
		l.saved.Policies[unread] = authz.PolicyState{Undecodable: []authz.Undecodable{{Resource: string(unread)}}}
		names, err := l.recovery().Restore(t.Context())
		checkNames(t, names, err, "shop", "web")
		names, err = l.recovery().AcceptLoss(t.Context())
		checkNames(t, names, err, "unread")
	})
}

func TestRestoreMissing(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		create(t, l.api, "web")
		before := l.load(t).Policies[lostLocation.Policy("web")]
		names, err := l.recovery().RestoreMissing(t.Context())
		checkNames(t, names, err, "shop")
		want := map[authz.PolicyName]authz.PolicyState{
			lostLocation.Policy("web"): before, lostLocation.Policy("shop"): l.saved.Policies[lostLocation.Policy("shop")],
		}
		if diff := cmp.Diff(want, l.load(t).Policies, protocmp.Transform(), underAnotherNumber); diff != "" {
			t.Error(diff)
		}
		names, err = l.recovery().RestoreMissing(t.Context())
		checkNames(t, names, err)
	})
}

// evictPolicy makes a newer policy web with an experiment, and takes the record of the
// policy alone from the store, as one that evicts does.
func (l lostStore) evictPolicy(t *testing.T) (policy, experiment string) {
	t.Helper()
	create(t, l.api, "web")
	web := lostLocation.Policy("web")
	if _, err := l.api.CreatePolicyExperiment(t.Context(), &adminpb.CreatePolicyExperimentRequest{
		Parent: string(web), PolicyExperimentId: "active",
		PolicyExperiment: &adminpb.PolicyExperiment{DisplayName: "newer", Policy: &adminpb.Policy{Name: string(web)}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.api.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{
		Policy: &adminpb.Policy{Name: string(web), DisplayName: "newest"},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.store.Commit(t.Context(), admin.Txn{
		ID: "eviction", Project: "lost", Writes: []admin.Write{admin.Delete{Key: admin.Key(web)}},
	}); err != nil {
		t.Fatal(err)
	}
	return string(web), string(web) + "/experiments/active"
}

// TestRestoreMissingKeepsWhatIsThere: a store that evicts may have lost a policy, and still
// have its revisions and its experiments, changed since the snapshot was written.
func TestRestoreMissingKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		policy, experiment := l.evictPolicy(t)
		names, err := l.recovery().RestoreMissing(t.Context())
		checkNames(t, names, err, "shop", "web")
		kept, err := l.api.GetPolicyExperiment(t.Context(), &adminpb.GetPolicyExperimentRequest{Name: experiment})
		if err != nil || kept.DisplayName != "newer" || kept.PreviewMetadata.GetState() == adminpb.PolicyPreviewMetadata_ACTIVE {
			t.Errorf("the experiment that was there is %v, %v", kept, err)
		}
		listed, err := l.api.ListPolicyRevisions(t.Context(), &adminpb.ListPolicyRevisionsRequest{Parent: policy})
		if err != nil || len(listed.GetPolicyRevisions()) != 2 {
			t.Errorf("the revisions are %v, %v; want both that were there", listed, err)
		}
	})
}

// TestAcceptLossIsADeletion: of what the store still has of a policy, no experiment comes
// back with it.
func TestAcceptLossIsADeletion(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		policy, experiment := l.evictPolicy(t)
		names, err := l.recovery().AcceptLoss(t.Context())
		checkNames(t, names, err, "shop", "web")
		if _, err := l.api.UndeletePolicy(t.Context(), &adminpb.UndeletePolicyRequest{Name: policy}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.api.GetPolicyExperiment(t.Context(), &adminpb.GetPolicyExperimentRequest{Name: experiment}); status.Code(err) != codes.NotFound {
			t.Errorf("the experiment came back: %v", err)
		}
	})
}

func TestAcceptLoss(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		reported := lostLocation.Policy("reported")
		if _, err := l.store.Heartbeat(t.Context(), &adminpb.Node{
			Name: string(lostLocation) + "/nodes/n", Policies: []string{string(reported), string(lostLocation.Policy("web"))},
		}); err != nil {
			t.Fatal(err)
		}
		create(t, l.api, "kept")
		names, err := l.recovery().AcceptLoss(t.Context())
		checkNames(t, names, err, "reported", "shop", "web")
		loaded := l.load(t)
		for _, v := range names {
			if state, there := loaded.Policies[v.Name]; !there || state.Policy != nil {
				t.Errorf("%s is %v, %v; want it there and deleted", v.Name, state.Policy, there)
			}
		}
		if loaded.Policies[lostLocation.Policy("kept")].Policy == nil {
			t.Error("a policy that was not lost is deleted")
		}
		if _, err := l.api.UndeletePolicy(t.Context(), &adminpb.UndeletePolicyRequest{Name: string(lostLocation.Policy("web"))}); err != nil {
			t.Fatal(err)
		}
		if web := l.load(t).Policies[lostLocation.Policy("web")].Policy; web.GetDisplayName() != "new web" {
			t.Errorf("what was undeleted is %v", web)
		}
		names, err = l.recovery().AcceptLoss(t.Context())
		checkNames(t, names, err)
	})
}
