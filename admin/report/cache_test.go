package report_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"understudy/admin/report"
)

// publications :: UID of an experiment → what was published of it.
type publications map[string][]report.Published

// read reads what is not kept, as a store does, and checks that all is there and how many bytes
// of it were read.
func (p publications) read(t *testing.T, c *report.Cache, uid string, want int) {
	t.Helper()
	kept, published, sent := c.Of(uid), slices.Clone(p[uid]), 0
	for i := range published {
		if serial, ok := kept.Serials[published[i].Tally]; ok && serial == published[i].Serial {
			published[i].Value = nil
		}
		sent += len(published[i].Value)
	}
	c.Fill(uid, kept, published)
	for i, p := range p[uid] {
		if !bytes.Equal(published[i].Value, p.Value) {
			t.Errorf("%s: the value of %s at %d is another one", uid, p.Tally, p.Serial)
		}
	}
	if sent != want {
		t.Errorf("%s: %d bytes were read, want %d", uid, sent, want)
	}
}

// TestCacheIsOfWhatIsRead: what is read again is what was published since. What nobody reads
// for a minute is dropped.
func TestCacheIsOfWhatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publications{"a": {
			{Tally: "one", Serial: 3, Value: []byte("111")}, {Tally: "two", Serial: 1, Value: []byte("22")}, {Tally: "three", Value: []byte{}},
		}}
		r := report.NewCache()
		p.read(t, r, "a", 5)
		p.read(t, r, "a", 0)
		p["a"][0].Serial, p["a"][0].Value = 4, []byte("1111")
		p["a"] = append(p["a"], report.Published{Tally: "four", Serial: 1, Value: []byte("4")})
		p.read(t, r, "a", 5)
		p["a"] = p["a"][1:]
		time.Sleep(59 * time.Second)
		p.read(t, r, "a", 0)
		time.Sleep(59 * time.Second)
		p.read(t, r, "a", 0)
		time.Sleep(61 * time.Second)
		p.read(t, r, "a", 3)
	})
}

// TestCacheIsBounded: of more than there is room for, that goes first which was
// not read for the longest time; what is too large alone is not kept.
func TestCacheIsBounded(t *testing.T) {
	const size = 20 << 20
	p := make(publications)
	for i := range 4 {
		p[fmt.Sprint(i)] = []report.Published{{Tally: "t", Serial: 1, Value: make([]byte, size)}}
	}
	p["large"] = []report.Published{{Tally: "t", Serial: 1, Value: make([]byte, 65<<20)}}
	synctest.Test(t, func(t *testing.T) {
		r := report.NewCache()
		for _, step := range []struct {
			uid  string
			sent int
		}{{"0", size}, {"1", size}, {"2", size}, {"0", 0}, {"3", size}, {"0", 0}, {"2", 0}, {"large", 65 << 20}, {"large", 65 << 20}, {"3", 0}, {"1", size}} {
			p.read(t, r, step.uid, step.sent)
			time.Sleep(time.Second)
		}
	})
}
