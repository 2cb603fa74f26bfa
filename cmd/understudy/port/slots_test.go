package port

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// lines are slots whose holders have names.
type lines struct {
	*slots
	of    map[string]*slot
	ended chan string
}

func newLines(most, mostOf int) *lines {
	return &lines{newSlots(most, mostOf), make(map[string]*slot), make(chan string, 100)}
}

// enter takes a slot for a name, whose first letter is its address.
func (l *lines) enter(name string, size int) {
	l.of[name] = l.slots.enter(netip.PrefixFrom(netip.AddrFrom4([4]byte{name[0]}), 32), size, func() { l.ended <- name })
}

// lost returns who lost a slot since the last call, by name.
func (l *lines) lost() string {
	synctest.Wait()
	var names []string
	for len(l.ended) > 0 {
		names = append(names, <-l.ended)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestSlots: the oldest loses its slot to a newer one, and an address takes none of the others'
// as long as it has more than they.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(6, 3)
		for _, step := range []struct{ enter, lost string }{
			{"a1", ""}, {"a2", ""}, {"a3", ""},
			{"a4", "a1"}, // a has all that it may have
			{"b1", ""}, {"b2", ""}, {"c1", ""},
			{"c2", "a2"}, // there is none left, and a has the most
			{"d1", "a3"}, // of those who have as many, the oldest
			{"e1", "b1"},
			{"a5", "a4"}, // its own, if that is as many as those of another one
			{"f1", "c1"},
		} {
			l.enter(step.enter, 1)
			if got := l.lost(); got != step.lost {
				t.Fatalf("%s takes the slot of %q, want %q", step.enter, got, step.lost)
			}
		}
		for _, name := range []string{"b2", "c2", "a1", "b2"} { // a1 lost its slot long ago
			l.leave(l.of[name])
		}
		for _, name := range []string{"g1", "g2"} {
			l.enter(name, 1)
		}
		if size, lost := l.numbers(); l.lost() != "" || size != 6 || lost != 6 {
			t.Errorf("%d slots are taken, and %d were lost; want 6 and 6", size, lost)
		}
		for name := range l.of {
			l.leave(l.of[name])
		}
		if size, _ := l.numbers(); size != 0 || len(l.sizes) != 0 {
			t.Errorf("nobody is there, but %d slots are taken, by %v", size, l.sizes)
		}
	})
}

// TestSlotsThatGrow: who has nothing loses nothing.
func TestSlotsThatGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLines(10, 6)
		for _, name := range []string{"a1", "a2", "b1", "b2", "c1"} {
			l.enter(name, 0)
		}
		for _, step := range []struct {
			who  string
			by   int
			lost string
		}{
			{"a2", 4, ""}, {"b2", 3, ""}, {"b1", 1, ""},
			{"a2", 3, "a2"}, // more than one address may have
			{"c1", 6, ""},
			{"b2", 1, "c1"},
			{"a2", 100, ""}, {"c1", 100, ""}, // which have no slot any more
		} {
			l.grow(l.of[step.who], step.by)
			if got := l.lost(); got != step.lost {
				t.Fatalf("%s grows by %d: %q loses its slot, want %q", step.who, step.by, got, step.lost)
			}
		}
		l.empty(l.of["b2"])
		l.empty(l.of["a2"])
		if size, _ := l.numbers(); size != 1 {
			t.Errorf("the size of all is %d, want 1", size)
		}
	})
}

func TestAddressesOfCallers(t *testing.T) {
	for peer, want := range map[string]string{
		"192.0.2.7:80":               "192.0.2.7/32",
		"[::ffff:192.0.2.7]:80":      "192.0.2.7/32",
		"[2001:db8:1:2:3:4:5:6]:443": "2001:db8:1:2::/64",
		"[2001:db8:1:2::1]:1":        "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":           "fe80::/64",
		"pipe":                       "invalid Prefix",
		"":                           "invalid Prefix",
	} {
		if got := addressOf(peer).String(); got != want {
			t.Errorf("%s is counted as %s, want %s", peer, got, want)
		}
	}
}
