package authz

import (
	"encoding/binary"
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
