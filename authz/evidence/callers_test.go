package evidence

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/axiomhq/hyperloglog"

	"understudy/authz"
)

// TestCallerOf: a certificate names the caller before labels do, and these before a token; each of them is another
// caller.
func TestCallerOf(t *testing.T) {
	token := func(issuer, subject string) func() (string, string) {
		return func() (string, string) { return issuer, subject }
	}
	label := callerOfLabels([]authz.Label{{Name: "caller", Value: "ann"}})
	all := make(map[caller]bool)
	for i, c := range []struct {
		request  *authz.Request
		labelled string
	}{
		{&authz.Request{Principal: "ann", Subject: token("issuer", "ann")}, label},
		{&authz.Request{Subject: token("issuer", "ann")}, label},
		{&authz.Request{Subject: token("issuer", "ann")}, ""},
		{&authz.Request{Subject: token("other", "ann")}, ""},
		{&authz.Request{Subject: token("issue", "rann")}, ""},
		{&authz.Request{Subject: token("", "ann")}, ""},
	} {
		by := callerOf("uid", c.request, c.labelled)
		if !by.known || all[by] {
			t.Errorf("%v of case %d is no caller of its own", by, i)
		}
		all[by] = true
		if other := callerOf("other", c.request, c.labelled); other == by {
			t.Errorf("case %d has the same hash for another experiment", i)
		}
	}
	for i, r := range []*authz.Request{{}, {Subject: token("issuer", "")}} {
		if by := callerOf("uid", r, ""); by.known {
			t.Errorf("request %d is of a caller who is not known, got %v", i, by)
		}
	}
}

// TestStoredCallers reads sets as they are stored, and takes what cannot be read for empty.
func TestStoredCallers(t *testing.T) {
	list, sketch, fine := callers{}, callers{}, callers{fine: true}
	for i := range uint32(maxListed + 1) {
		if i < maxListed {
			list.add(i * 0x9E3779B9)
		}
		sketch.add(i * 0x9E3779B9)
		fine.add(i * 0x9E3779B9)
	}
	changed := func(at int, to byte) []byte {
		out := sketch.stored()
		out[at] = to
		return out
	}
	full := append(sketch.stored()[:headerBytes], bytes.Repeat([]byte{64 - precision + 1}, 1<<precision)...)
	finer, err := hyperloglog.New().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stored      []byte
		least, most int64
	}{
		"nothing": {nil, 0, 0}, "an empty list": {[]byte{0}, 0, 0}, "a list": {list.stored(), 1024, 1024},
		"a sketch": {sketch.stored(), 500, 2500}, "a list as a sketch": {shortCallers(list.stored()), 500, 2500},
		"a list that is not sorted":  {[]byte{0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 9}, 2, 2},
		"full registers":             {full, 1 << 30, 1 << 32},
		"registers more than full":   {changed(20, 64), 0, 0},
		"half a hash":                {[]byte{0, 1, 2}, 0, 0},
		"a list that is too long":    {make([]byte, 1+(maxListed+1)*hashBytes), 0, 0},
		"half a sketch":              {sketch.stored()[:40], 0, 0},
		"more behind a sketch":       {append(sketch.stored(), 0), 0, 0},
		"an older sketch":            {changed(0, 1), 0, 0},
		"another number of them":     {changed(1, 18), 0, 0},
		"a sparse sketch":            {changed(3, 1), 0, 0},
		"a sketch of many registers": {finer, 0, 0},
		"a sketch of a pair":         {fine.stored(), 0, 0},
	} {
		if n := Callers(c.stored); n < c.least || n > c.most {
			t.Errorf("%s has %d callers, want %d to %d", name, n, c.least, c.most)
		}
	}
}

// TestCallersOfPairs: those of a pair are exact while they are listed, and then at most so far off as is
// said.
func TestCallersOfPairs(t *testing.T) {
	for _, distinct := range []int64{0, 1, 32, 33, 100, 1000, 20_000} {
		first, second := callers{fine: true}, callers{fine: true}
		for i := range distinct {
			by := callerOf("uid", &authz.Request{Principal: fmt.Sprint("spiffe://cluster/ns/shop/sa/", i)}, "")
			first.add(by.hash)
			if i%2 == 0 {
				second.add(by.hash)
			}
		}
		n, off := PairCallers(first.stored(), second.stored())
		if exact := distinct <= maxExact; exact != (off == 0) || exact && n != distinct {
			t.Errorf("of %d callers there are %d, ± %d", distinct, n, off)
		}
		if n-off > distinct || n+off < distinct {
			t.Errorf("%d callers are not within %d ± %d", distinct, n, off)
		}
	}
}

// FuzzStoredCallers: bytes that are no set are an empty one and no panic, and to add a set
// twice changes nothing.
func FuzzStoredCallers(f *testing.F) {
	for _, n := range []int{0, 3, maxExact + 1, maxListed, maxListed + 1, 2000} {
		var c callers
		for i := range n {
			c.add(uint32(i) * 0x9E3779B9)
		}
		f.Add(c.stored())
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		var c callers
		c.addStored(stored)
		n, once := c.count(), c.stored()
		c.addStored(stored)
		c.addStored(once)
		if n < 0 || n > 1<<32 || c.count() != n || !bytes.Equal(c.stored(), once) || Callers(shortCallers(once)) < 0 {
			t.Errorf("%d callers %v are, added again, %d callers %v", n, once, c.count(), c.stored())
		}
	})
}

// TestOtherCallers finds who is not known, and nobody in what is the same set in another form.
func TestOtherCallers(t *testing.T) {
	of := func(from, to uint32) []byte {
		var c callers
		for i := from; i < to; i++ {
			c.add(i * 0x9E3779B9)
		}
		return c.stored()
	}
	for name, c := range map[string]struct {
		known []byte
		seen  [][]byte
		want  bool
	}{
		"nobody":                   {of(0, 2), [][]byte{nil, {}}, false},
		"the same":                 {of(0, 2), [][]byte{of(0, 1), of(1, 2)}, false},
		"one more":                 {of(0, 2), [][]byte{of(0, 2), of(1, 3)}, true},
		"one in place of two":      {of(0, 2), [][]byte{of(2, 3)}, true},
		"of nobody":                {nil, [][]byte{of(0, 1)}, true},
		"one more of 320":          {of(0, 320), [][]byte{of(0, 321)}, true},
		"one more than are listed": {of(0, maxListed), [][]byte{of(maxListed, maxListed+1)}, true},
		"the list as a sketch":     {of(0, 50), [][]byte{shortCallers(of(0, 50))}, false},
		"the sketch as a list":     {shortCallers(of(0, 50)), [][]byte{of(0, 50)}, false},
		"others as a sketch":       {of(0, 2), [][]byte{shortCallers(of(2, 50))}, true},
		"others in a sketch":       {shortCallers(of(0, 50)), [][]byte{shortCallers(of(50, 100))}, true},
		"fewer as a sketch":        {of(0, 2000), [][]byte{of(20, 1900)}, false},
	} {
		if got := OtherCallers(c.known, c.seen...); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if got := Callers(JoinCallers(of(0, 3), nil, of(2, 5))); got != 5 {
		t.Errorf("the union of 3 and 3 callers, one of them in both, has %d", got)
	}
}

// TestFewestCallers: what is counted is sure, and of an estimate two standard errors are not.
func TestFewestCallers(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 1, 32: 32, 33: 33, 40: 34, 316: 274} {
		if got := FewestCallers(n); got != want {
			t.Errorf("%d: got at least %d, want %d", n, got, want)
		}
	}
}
