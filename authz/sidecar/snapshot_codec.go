package sidecar

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// A snapshot file is
//
//	magic, SHA-256 of the rest,
//	location, sequence, nonce,
//	number of policies, and for each in name order:
//	    Policy, number of experiments, PolicyExperiment…
//	and, if there are any, the number and the names of those that could never be read
//
// Numbers are unsigned varints; texts and marshalled messages have their length
// before them. The same update always gives the same bytes.
const snapshotMagic = "understudy snapshot 1\n"

// errCorrupt says that a snapshot file is not what was written.
var errCorrupt = errors.New("the snapshot file is corrupt")

// errNeverRead is why a policy of a snapshot file is undecodable.
var errNeverRead = errors.New("it could not be read before the snapshot file was written, either")

// deterministic marshals maps in the order of their keys.
var deterministic = proto.MarshalOptions{Deterministic: true}

// savedPolicy is what a snapshot file has of one policy.
type savedPolicy struct {
	// live is nil if it could never be read.
	live        *authz.Packed
	experiments []*adminpb.PolicyExperiment
}

// encodeSnapshot makes the content of a snapshot file.
func encodeSnapshot(location authz.Location, cursor authz.Cursor, policies map[authz.PolicyName]savedPolicy) ([]byte, error) {
	var b []byte
	b = appendBytes(b, []byte(location))
	b = binary.AppendUvarint(b, uint64(cursor.Sequence))
	b = appendBytes(b, []byte(cursor.Nonce))
	readable, unreadable := partition(policies)
	b = binary.AppendUvarint(b, uint64(len(readable)))
	for _, name := range readable {
		var err error
		if b, err = appendPolicy(b, policies[name]); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", name, err)
		}
	}
	if len(unreadable) > 0 {
		b = binary.AppendUvarint(b, uint64(len(unreadable)))
	}
	for _, name := range unreadable {
		b = appendBytes(b, []byte(name))
	}
	return seal(b), nil
}

// partition returns the names of policies that there is something to decide by, and of
// those that could never be read, both in order.
func partition(policies map[authz.PolicyName]savedPolicy) (readable, unreadable []authz.PolicyName) {
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if policies[name].live != nil {
			readable = append(readable, name)
		} else {
			unreadable = append(unreadable, name)
		}
	}
	return readable, unreadable
}

func appendPolicy(b []byte, p savedPolicy) ([]byte, error) {
	b = appendBytes(b, p.live.Bytes())
	b = binary.AppendUvarint(b, uint64(len(p.experiments)))
	for _, e := range p.experiments {
		var err error
		if b, err = appendMessage(b, e); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func appendMessage(b []byte, m proto.Message) ([]byte, error) {
	encoded, err := deterministic.Marshal(m)
	return appendBytes(b, encoded), err
}

func appendBytes(b, value []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
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
	d := decoder{rest: payload}
	of := authz.Location(d.bytes())
	update := authz.Update{Cursor: authz.Cursor{Sequence: int64(d.number()), Nonce: string(d.bytes())}}
	update.Policies = make(map[authz.PolicyName]authz.PolicyState)
	for range d.count() {
		state := d.state()
		if !strings.HasPrefix(state.Policy.Name, string(of.Policy(""))) {
			d.failed = true
			break
		}
		update.Policies[authz.PolicyName(state.Policy.Name)] = state
	}
	d.unreadable(of, update)
	if d.failed || len(d.rest) > 0 {
		return authz.Update{}, errCorrupt
	}
	if of != location {
		return authz.Update{}, fmt.Errorf("the snapshot file is of %s", of)
	}
	return update, nil
}

// decoder takes values from the front of what is left. Once something is wrong, it
// has failed and nothing is left.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count takes a number of things that are still to come, each of a byte at least.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count()
	value := d.rest[:n]
	d.rest = d.rest[n:]
	return value
}

func (d *decoder) message(m proto.Message) {
	if err := proto.Unmarshal(d.bytes(), m); err != nil {
		d.fail()
	}
}

func (d *decoder) state() authz.PolicyState {
	state := authz.PolicyState{Policy: &adminpb.Policy{}}
	d.message(state.Policy)
	for range d.count() {
		e := &adminpb.PolicyExperiment{}
		d.message(e)
		state.Experiments = append(state.Experiments, e)
	}
	return state
}

// unreadable adds the policies that could never be read: they deny, as they did when the
// file was written.
func (d *decoder) unreadable(of authz.Location, update authz.Update) {
	if len(d.rest) == 0 {
		return
	}
	for range d.count() {
		name := authz.PolicyName(d.bytes())
		if _, known := update.Policies[name]; known || !strings.HasPrefix(string(name), string(of.Policy(""))) {
			d.fail()
			return
		}
		update.Policies[name] = authz.PolicyState{Undecodable: []authz.Undecodable{{Resource: string(name), Err: errNeverRead}}}
	}
}

func (d *decoder) fail() { d.rest, d.failed = nil, true }
