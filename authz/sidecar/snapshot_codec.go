package sidecar

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	sidecarpb "understudy/authz/sidecar/v1"
)

// snapshotMagic is how a snapshot file begins. The SHA-256 of the rest follows, and then a Snapshot
// of authz/sidecar/v1. The same update always gives the same bytes.
const snapshotMagic = "understudy snapshot 2\n"

// errCorrupt says that a snapshot file is not what this version has written.
var errCorrupt = errors.New("the snapshot file is corrupt, or another version has written it: it is replaced as soon as the store answers")

// errNeverRead is why a policy of a snapshot file is undecodable.
var errNeverRead = errors.New("it could not be read before the snapshot file was written, either")

// encodeSnapshot makes the content of a snapshot file.
func encodeSnapshot(scope authz.Scope, snap *snapshot, watermark int64) ([]byte, error) {
	m := &sidecarpb.Snapshot{
		Location: string(scope.Location), Sequence: snap.cursor.Sequence, Nonce: snap.cursor.Nonce, Watermark: watermark, Selection: scope.Policies,
	}
	for _, name := range slices.Sorted(maps.Keys(snap.policies)) {
		e := snap.policies[name]
		saved := &sidecarpb.SavedPolicy{Name: string(name), Sequence: e.sequence}
		if e.live.Source != nil { // else it could never be read
			saved.Policy, saved.Experiments = e.live.Source.Bytes(), e.previewed
		}
		m.Policies = append(m.Policies, saved)
	}
	for _, name := range slices.Sorted(maps.Keys(snap.deleted)) {
		m.Deleted = append(m.Deleted, &sidecarpb.DeletedPolicy{Name: string(name), Sequence: snap.deleted[name].sequence})
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the policies: %w", err)
	}
	return seal(payload), nil
}

// seal puts magic and checksum before a payload.
func seal(payload []byte) []byte {
	sum := sha256.Sum256(payload)
	return slices.Concat([]byte(snapshotMagic), sum[:], payload)
}

// unseal returns the payload of a file that is as it was written.
func unseal(content []byte) ([]byte, error) {
	content, ok := bytes.CutPrefix(content, []byte(snapshotMagic))
	if !ok || len(content) < sha256.Size {
		return nil, errCorrupt
	}
	payload := content[sha256.Size:]
	if sha256.Sum256(payload) != [sha256.Size]byte(content) {
		return nil, errCorrupt
	}
	return payload, nil
}

// decodeUpdate reads the content of a snapshot file of the same location.
func decodeUpdate(location authz.Location, content []byte) (authz.Update, error) {
	payload, err := unseal(content)
	if err != nil {
		return authz.Update{}, err
	}
	m := &sidecarpb.Snapshot{}
	if proto.Unmarshal(payload, m) != nil {
		return authz.Update{}, errCorrupt
	}
	update := authz.Update{
		Cursor: authz.Cursor{Sequence: m.GetSequence(), Nonce: m.GetNonce()}, Policies: make(map[authz.PolicyName]authz.PolicyState),
		Watermark: m.GetWatermark(), Selection: m.GetSelection(),
	}
	add := func(name authz.PolicyName, state authz.PolicyState) bool {
		_, known := update.Policies[name]
		update.Policies[name] = state
		return !known && strings.HasPrefix(string(name), string(authz.Location(m.GetLocation()).Policy("")))
	}
	for _, saved := range m.GetPolicies() {
		state, err := stateOf(saved)
		if err != nil || !add(authz.PolicyName(saved.GetName()), state) {
			return authz.Update{}, errCorrupt
		}
	}
	for _, deleted := range m.GetDeleted() {
		if !add(authz.PolicyName(deleted.GetName()), authz.PolicyState{Sequence: deleted.GetSequence()}) {
			return authz.Update{}, errCorrupt
		}
	}
	if m.GetLocation() != string(location) {
		return authz.Update{}, fmt.Errorf("the snapshot file is of %s", m.GetLocation())
	}
	return update, nil
}

// stateOf returns the state of a policy. One that could never be read denies, as it did when the
// file was written.
func stateOf(saved *sidecarpb.SavedPolicy) (authz.PolicyState, error) {
	if len(saved.GetPolicy()) == 0 {
		never := authz.Undecodable{Resource: saved.GetName(), Err: errNeverRead}
		return authz.PolicyState{Sequence: saved.GetSequence(), Undecodable: []authz.Undecodable{never}}, nil
	}
	state := authz.PolicyState{Sequence: saved.GetSequence(), Policy: &adminpb.Policy{}, Experiments: saved.GetExperiments()}
	if err := proto.Unmarshal(saved.GetPolicy(), state.Policy); err != nil || state.Policy.GetName() != saved.GetName() {
		return authz.PolicyState{}, errCorrupt
	}
	return state, nil
}
