package sidecar

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

const testLocation = authz.Location("projects/p1/locations/l1")

// saved returns an update with two policies, one of them with experiments, one that could never be
// read, and a deletion.
func saved() authz.Update {
	web, shop := testLocation.Policy("web"), testLocation.Policy("shop")
	return authz.Update{
		Cursor: authz.Cursor{Sequence: 1 << 40, Nonce: "n"}, Watermark: 1<<40 + 1,
		Policies: map[authz.PolicyName]authz.PolicyState{
			testLocation.Policy("deleted"):    {Sequence: 3},
			shop:                              {Sequence: 1 << 40, Policy: &adminpb.Policy{Name: string(shop), Annotations: map[string]string{"a": "1", "b": "2", "c": "3"}}},
			testLocation.Policy("unreadable"): {Sequence: 2, Undecodable: []authz.Undecodable{{Resource: string(testLocation.Policy("unreadable")), Err: errNeverRead}}},
			web: {
				Policy: &adminpb.Policy{Name: string(web), Etag: `W/"1"`, Modules: map[string]string{"a.rego": "package a", "b.rego": "package b"}},
				Experiments: []*adminpb.PolicyExperiment{
					{Name: string(web) + "/experiments/e1", Etag: `W/"2"`, Policy: &adminpb.Policy{}},
					{Name: string(web) + "/experiments/e2"},
				},
			},
		},
	}
}

func encoded(t testing.TB, update authz.Update) []byte {
	t.Helper()
	snap := &snapshot{cursor: update.Cursor, policies: make(map[authz.PolicyName]*entry), deleted: make(map[authz.PolicyName]deletion)}
	for name, state := range update.Policies {
		if state.Gone() {
			snap.deleted[name] = deletion{sequence: state.Sequence}
			continue
		}
		e := &entry{sequence: state.Sequence, previewed: state.Experiments}
		if state.Policy != nil {
			var err error
			if e.live.Source, err = authz.Pack(state.Policy); err != nil {
				t.Fatal(err)
			}
		}
		snap.policies[name] = e
	}
	content, err := encodeSnapshot(authz.Scope{Location: testLocation, Policies: update.Selection}, snap, update.Watermark)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestASnapshotFileIsReadAsWritten(t *testing.T) {
	for name, want := range map[string]authz.Update{"some": saved(), "none": {Policies: map[authz.PolicyName]authz.PolicyState{}}} {
		content := encoded(t, want)
		got, err := decodeUpdate(testLocation, content)
		if diff := cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateErrors()); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		for range 20 {
			if !bytes.Equal(content, encoded(t, want)) {
				t.Fatalf("%s: the same update gives other bytes", name)
			}
		}
	}
}

func TestADamagedSnapshotFileIsNotRead(t *testing.T) {
	content := encoded(t, saved())
	for i := range content {
		damaged := bytes.Clone(content)
		damaged[i] ^= 1
		if _, err := decodeUpdate(testLocation, damaged); !errors.Is(err, errCorrupt) {
			t.Fatalf("the byte %d is wrong: %v", i, err)
		}
		if _, err := decodeUpdate(testLocation, content[:i]); !errors.Is(err, errCorrupt) {
			t.Fatalf("%d bytes are there: %v", i, err)
		}
	}
	if _, err := decodeUpdate("projects/p1/locations/l2", content); err == nil {
		t.Error("the policies of another location were read")
	}
}

// FuzzSnapshotFile reads payloads whose checksum is right: what is read is written and
// read the same again.
func FuzzSnapshotFile(f *testing.F) {
	for _, update := range []authz.Update{saved(), {}} {
		payload, err := unseal(encoded(f, update))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, payload []byte) {
		update, err := decodeUpdate(testLocation, seal(payload))
		if err != nil {
			return
		}
		again, err := decodeUpdate(testLocation, encoded(t, update))
		if diff := cmp.Diff(update, again, protocmp.Transform(), cmpopts.EquateErrors()); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	})
}
