package authz

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestMemoryIsBoundedInBytes: who is echoed in decisions must not be able to fill the
// memory of the sidecar by sending long headers.
func TestMemoryIsBoundedInBytes(t *testing.T) {
	const size = 256
	m, err := newMemory(size)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 100<<10)
	now := time.Unix(1_700_000_000, 0)
	for i := range uint64(1000) {
		var f fingerprint
		binary.LittleEndian.PutUint64(f[:], i)
		name := string(binary.AppendUvarint([]byte("n"), i))
		d := m.keep(f, Decision{Verdict: Allow, Headers: []Field{{name, long}}, until: now.Add(time.Hour)}, now)
		if d.Rendering() != nil {
			t.Fatal("a large decision has a rendering, by which others would hold it")
		}
	}
	m.decisions.CleanUp()
	kept := 0
	for _, r := range m.decisions.All() {
		kept += len(r.decision.Headers[0].Value)
	}
	for _, d := range m.distinct.known {
		kept += len(d.Headers[0].Value)
	}
	if limit := size * bytesPerDecision; kept > limit {
		t.Errorf("%d bytes are kept, want at most %d", kept, limit)
	}
	if kept == 0 {
		t.Error("nothing is kept")
	}
}

// TestChangesForgetNothing: a change of another policy, or of an etag, leaves what a
// live policy remembers, also beside an experiment that is equal to it.
func TestChangesForgetNothing(t *testing.T) {
	const size = 400
	s := &Sidecar{config: Config{Memory: size}, log: slog.New(slog.DiscardHandler)}
	same := allowing("1", "input.x")
	update := Update{Policies: map[PolicyName]PolicyState{web: state(same, trial("e", same))}}
	next := (&snapshot{}).with(t.Context(), update)
	s.giveMemory(next)
	m, now := next.policies[web].live.policy.memory, time.Unix(1_700_000_000, 0)
	for i := range uint64(size / 2) {
		var f fingerprint
		binary.LittleEndian.PutUint64(f[:], i)
		m.keep(f, Decision{Verdict: Allow, Plain: true, Value: true, until: forever}, now)
	}
	next = next.with(t.Context(), update)
	s.giveMemory(next)
	if next.policies[web].live.policy.memory != m {
		t.Fatal("the memory is another")
	}
	m.decisions.CleanUp()
	if kept := m.decisions.EstimatedSize(); kept != size/2 {
		t.Errorf("%d decisions are kept, want %d", kept, size/2)
	}
}

// TestFormsTellDecisionsApart: two decisions of one form are equal.
func TestFormsTellDecisionsApart(t *testing.T) {
	plain := func(rule, reason string) Decision {
		return Decision{Rule: rule, Reason: reason, Plain: true, Value: false}
	}
	for name, pair := range map[string][2]Decision{
		"where a text ends":     {plain("a\x00b", "c"), plain("a", "b\x00c")},
		"rule and reason":       {plain("a", ""), plain("", "a")},
		"bytes that are no UTF": {plain("\xff", ""), plain("\xfe", "")},
		"the verdict":           {{Plain: true, Value: true}, {Verdict: Allow, Plain: true, Value: true}},
		"the value":             {{Plain: true, Value: true}, {Plain: true, Value: false}},
		"the status":            {{HTTPStatus: 401}, {HTTPStatus: 402}},
		"headers":               {{Headers: []Field{{"a", "b"}}}, {Headers: []Field{{"a", "c"}}}},
	} {
		one, ok := canonical(pair[0])
		other, okToo := canonical(pair[1])
		if ok && okToo && one == other {
			t.Errorf("%s: both are %q", name, one)
		}
	}
}
