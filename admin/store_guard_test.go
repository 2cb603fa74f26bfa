package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/boltstore"
	"understudy/admin/iam"
	"understudy/admin/recovery"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

const (
	guardedLocation = authz.Location("projects/guarded/locations/l1")
	guardedProject  = "projects/guarded"
)

// replaceable is a store in whose place another one may be put.
type replaceable struct{ admin.Store }

// olderCopy is a server on a store that is put back to a copy of its file.
type olderCopy struct {
	testing.TB
	file  string
	store *replaceable
	open  *boltstore.Store
	guard *admin.StoreGuard
	api   *admin.Server
	iam   *iam.Service
	log   *bytes.Buffer
}

func newOlderCopy(t *testing.T, change func(*admin.StoreGuardConfig)) *olderCopy {
	t.Helper()
	o := &olderCopy{TB: t, file: filepath.Join(t.TempDir(), "understudy.db"), store: &replaceable{}, log: &bytes.Buffer{}}
	o.openFile(o.file)
	t.Cleanup(func() { _ = o.open.Close() })
	config := admin.StoreGuardConfig{
		Store: o.store, Location: guardedLocation, Authenticated: true, Owners: []string{"token:root"}, Logger: slog.New(slog.NewTextHandler(o.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	o.restart(config)
	return o
}

// restart puts a server in the place of another one: nothing that was in its memory is known.
func (o *olderCopy) restart(config admin.StoreGuardConfig) {
	o.Helper()
	var err error
	if o.guard, err = admin.NewStoreGuard(config); err != nil {
		o.Fatal(err)
	}
	if o.api, err = admin.NewServer(admin.Config{Store: o.store, Guard: o.guard}); err != nil {
		o.Fatal(err)
	}
	if o.iam, err = iam.New(iam.Config{Admin: o.api}); err != nil {
		o.Fatal(err)
	}
}

func (o *olderCopy) openFile(path string) {
	o.Helper()
	var err error
	if o.open, err = boltstore.Open(path); err != nil {
		o.Fatal(err)
	}
	o.store.Store = o.open
}

// copyNow copies the file, and goBack makes the copy the store.
func (o *olderCopy) copyNow() {
	o.Helper()
	o.closeStore()
	content, err := os.ReadFile(o.file)
	if err != nil {
		o.Fatal(err)
	}
	if err := os.WriteFile(o.file+".older", content, 0o600); err != nil {
		o.Fatal(err)
	}
	o.openFile(o.file)
}

func (o *olderCopy) goBack() {
	o.Helper()
	o.closeStore()
	o.openFile(o.file + ".older")
}

func (o *olderCopy) closeStore() {
	o.Helper()
	if err := o.open.Close(); err != nil {
		o.Fatal(err)
	}
}

// as returns the context of a call of somebody with a token.
func as(t testing.TB, name string) context.Context {
	return access.NewContext(t.Context(), access.Principal{Member: "token:" + name})
}

// bind sets the owners and the editors of a resource, as the owner by configuration does.
func (o *olderCopy) bind(resource string, owners, editors []string) {
	o.Helper()
	if err := o.bindAs("root", resource, owners, editors); err != nil {
		o.Fatal(err)
	}
}

func (o *olderCopy) bindAs(who, resource string, owners, editors []string) error {
	_, err := o.iam.SetIamPolicy(as(o, who), &iampb.SetIamPolicyRequest{Resource: resource, Policy: &iampb.Policy{Bindings: []*iampb.Binding{
		{Role: string(access.RoleOwner), Members: owners}, {Role: string(access.RoleEditor), Members: editors},
	}}})
	return err
}

// createIn creates a policy in a location as somebody.
func (o *olderCopy) createIn(who string, location authz.Location, id string) error {
	_, err := o.api.CreatePolicy(as(o, who), &adminpb.CreatePolicyRequest{Parent: string(location), PolicyId: id, Policy: &adminpb.Policy{}})
	return err
}

func (o *olderCopy) create(who, id string) error { return o.createIn(who, guardedLocation, id) }

// want checks who may change something.
func (o *olderCopy) want(who string, id string, refused bool) {
	o.Helper()
	err := o.create(who, id)
	if refused && (status.Code(err) != codes.Unavailable || !strings.Contains(errorReason(err), "STORE_WENT_BACK") || !strings.Contains(err.Error(), "understudy restore")) {
		o.Errorf("%s gets %v, want STORE_WENT_BACK", who, err)
	}
	if !refused && err != nil {
		o.Errorf("%s gets %v", who, err)
	}
}

func errorReason(err error) (out string) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(interface{ GetReason() string }); ok {
			out += info.GetReason()
		}
	}
	return out
}

// TestOnlyOwnersChangeAStoreThatWentBack: a role that was taken away is there again. Owners are those
// of the configuration, and those of the bindings that were read before, not of the older ones.
func TestOnlyOwnersChangeAStoreThatWentBack(t *testing.T) {
	o := newOlderCopy(t, nil)
	o.bind(guardedProject, []string{"token:mallory", "token:alice"}, nil)
	o.bind(string(guardedLocation), []string{"token:lena"}, []string{"token:bob"})
	o.copyNow()
	o.bind(guardedProject, []string{"token:alice"}, nil)
	o.bind(string(guardedLocation), []string{"token:lena"}, nil)
	o.want("bob", "before", false)
	o.goBack()

	o.want("bob", "p", true)
	o.want("mallory", "p", true)
	o.want("", "p", true)
	if !o.guard.WentBack() || strings.Count(o.log.String(), "level=ERROR") != 1 {
		t.Errorf("went back: %v, and the log is %s", o.guard.WentBack(), o.log)
	}
	if err := o.bindAs("mallory", guardedProject, []string{"token:mallory"}, nil); !strings.Contains(errorReason(err), "STORE_WENT_BACK") {
		t.Errorf("mallory changes bindings: %v", err)
	}
	_, err := o.api.UpdateConfig(as(t, "bob"), &adminpb.UpdateConfigRequest{Config: &adminpb.Config{
		Name: string(guardedLocation) + "/config", CommitRequirements: &adminpb.CommitRequirements{RequireDifferentCommitter: true},
	}})
	if !strings.Contains(errorReason(err), "STORE_WENT_BACK") {
		t.Errorf("bob changes the configuration: %v", err)
	}
	if _, err := o.api.ListPolicies(as(t, "bob"), &adminpb.ListPoliciesRequest{Parent: string(guardedLocation)}); err != nil {
		t.Errorf("reading does not go on: %v", err)
	}

	o.want("alice", "alices", false)
	o.want("lena", "lenas", false)
	if err := o.createIn("lena", "projects/guarded/locations/l2", "p"); !strings.Contains(errorReason(err), "STORE_WENT_BACK") {
		t.Errorf("the owner of a location changes another one: %v", err)
	}
	if err := o.bindAs("lena", guardedProject, []string{"token:lena"}, nil); !strings.Contains(errorReason(err), "STORE_WENT_BACK") {
		t.Errorf("the owner of a location changes the project: %v", err)
	}
	o.bind(guardedProject, []string{"token:alice"}, nil)
	o.want("bob", "p", true) // the changes of owners do not end it
	o.want("alice", "again", false)

	if _, err := (recovery.Recovery{Store: o.store, Location: guardedLocation}).AcceptOlder(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.want("bob", "p", false)
	if o.guard.WentBack() {
		t.Error("the alarm does not end")
	}
}

// TestALostOperationOrExperimentIsNoAlarm: nothing that is enforced has changed.
func TestALostOperationOrExperimentIsNoAlarm(t *testing.T) {
	o := newOlderCopy(t, nil)
	o.want("bob", "web", false)
	o.copyNow()
	name := string(guardedLocation.Policy("web"))
	operation, err := o.api.CreatePolicyExperiment(as(t, "bob"), &adminpb.CreatePolicyExperimentRequest{
		Parent: name, PolicyExperimentId: "e", PolicyExperiment: &adminpb.PolicyExperiment{Policy: &adminpb.Policy{Name: name, DisplayName: "new"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.api.StartPreviewPolicyExperiment(as(t, "bob"), &adminpb.StartPreviewPolicyExperimentRequest{Name: name + "/experiments/e"}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.api.DeletePolicyExperiment(as(t, "bob"), &adminpb.DeletePolicyExperimentRequest{Name: name + "/experiments/e"}); err != nil {
		t.Fatal(err)
	}
	if operation.GetName() == "" {
		t.Error("there is no operation")
	}
	o.goBack()
	o.want("bob", "p", false)
	if o.guard.WentBack() {
		t.Error("there is an alarm")
	}
}

// TestAnEmptyStoreHasNotGoneBack: it has lost everything, roles too, and sidecars keep their policies.
func TestAnEmptyStoreHasNotGoneBack(t *testing.T) {
	o := newOlderCopy(t, nil)
	o.want("bob", "web", false)
	o.closeStore()
	o.openFile(filepath.Join(t.TempDir(), "new.db"))
	o.want("bob", "web", false)
	if o.guard.WentBack() {
		t.Error("there is an alarm")
	}
}

// TestWithoutAuthenticationEverybodyIsAnOwner: everybody may change everything anyway.
func TestWithoutAuthenticationEverybodyIsAnOwner(t *testing.T) {
	o := newOlderCopy(t, func(c *admin.StoreGuardConfig) { c.Authenticated, c.Owners = false, nil })
	o.want("", "a", false)
	o.copyNow()
	o.want("", "b", false)
	o.goBack()
	o.want("", "b", false)
	if !o.guard.WentBack() {
		t.Error("there is no alarm")
	}
}

// TestANodeKnowsThatTheStoreWentBack: a server that has started since goes by what sidecars report.
// Nobody owns anything by bindings then, for those that it could read are older ones.
func TestANodeKnowsThatTheStoreWentBack(t *testing.T) {
	o := newOlderCopy(t, nil)
	o.bind(guardedProject, []string{"token:mallory"}, nil)
	o.want("bob", "a", false)
	watermark, err := o.store.Watermark(t.Context(), "guarded")
	if err != nil {
		t.Fatal(err)
	}
	report := func(location authz.Location, watermark int64) {
		t.Helper()
		node := &adminpb.Node{Name: location.Node("n"), Watermark: watermark}
		if _, err := o.open.Heartbeat(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	report(guardedLocation, watermark)
	o.want("bob", "b", false)
	// No change has such a number: somebody has the password of a sidecar.
	for i, no := range []int64{math.MaxInt64, time.Now().Add(2 * time.Hour).UnixMilli(), -1, math.MinInt64} {
		report(guardedLocation, no)
		o.want("bob", fmt.Sprintf("c%d", i), false)
	}
	// Those of another location count there.
	const other = authz.Location("projects/guarded/locations/l2")
	later := time.Now().Add(time.Minute).UnixMilli()
	report(other, later)
	o.want("bob", "d", false)
	if err := o.createIn("bob", other, "d"); !strings.Contains(errorReason(err), "STORE_WENT_BACK") {
		t.Errorf("in the other location: %v", err)
	}
	report(guardedLocation, later)
	o.want("bob", "e", true)
	o.want("mallory", "e", true)
	o.want("root", "e", false)
	if _, err := (recovery.Recovery{Store: o.store, Location: guardedLocation}).AcceptOlder(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.want("bob", "f", false)
}

// TestAStoreThatDoesNotAnswerIsNotChanged: whether it has gone back cannot be known.
func TestAStoreThatDoesNotAnswerIsNotChanged(t *testing.T) {
	o := newOlderCopy(t, nil)
	o.closeStore()
	if err := o.create("root", "a"); status.Code(err) != codes.Unavailable || errors.Is(err, admin.ErrWentBack) || strings.Contains(errorReason(err), "WENT_BACK") {
		t.Errorf("the error is %v", err)
	}
}
