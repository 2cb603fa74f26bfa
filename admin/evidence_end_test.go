package admin_test

import (
	"testing"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// TestEvidenceEndsWithItsExperiment deletes an experiment and commits another: the evidence of
// both is gone with them, and that of a third stays.
func TestEvidenceEndsWithItsExperiment(t *testing.T) {
	store := newBoltStore(t)
	server, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, location := t.Context(), "projects/p1/locations/l1"
	web := location + "/policies/web"
	if _, err := server.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{
		Parent: location, PolicyId: "web", Policy: &adminpb.Policy{DisplayName: "live"},
	}); err != nil {
		t.Fatal(err)
	}
	etags := make(map[string]string)
	for _, id := range []string{"deleted", "committed", "kept"} {
		if _, err := server.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
			Parent: web, PolicyExperimentId: id,
			PolicyExperiment: &adminpb.PolicyExperiment{Policy: &adminpb.Policy{Name: web, DisplayName: id}},
		}); err != nil {
			t.Fatal(err)
		}
		e, err := server.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: web + "/experiments/" + id})
		if err != nil {
			t.Fatal(err)
		}
		etags[id] = e.Etag
		out, err := store.(authz.Feed).Publish(ctx, location+"/nodes/n", []authz.PublishedEvidence{
			{Experiment: e.Name, UID: e.Uid, Tally: id, Serial: 1, Value: []byte("counted")},
		})
		if err != nil || len(out.Refused) != 0 {
			t.Fatalf("publishing: %+v, %v", out, err)
		}
	}
	if _, err := server.DeletePolicyExperiment(ctx, &adminpb.DeletePolicyExperimentRequest{Name: web + "/experiments/deleted"}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.CommitPolicyExperiment(ctx, &adminpb.CommitPolicyExperimentRequest{
		Name: web + "/experiments/committed", Etag: etags["committed"],
	}); err != nil {
		t.Fatal(err)
	}
	names, err := store.EvidenceNames(ctx, "p1")
	if err != nil || len(names) != 1 || names[0].Experiment.ID() != "kept" {
		t.Errorf("there is evidence of %+v, %v", names, err)
	}
}
