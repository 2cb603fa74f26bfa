package audit

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// keyOf is the key of calls of a principal that were denied.
func keyOf(principal string) minorKey {
	return minorKey{principal, "understudy.admin.v1.PolicyPreview/DeletePolicy", outcome(codes.PermissionDenied)}
}

// TestMinorCallsAreFolded: in a second the first call of a key is an event, and the next event of
// the key counts the others.
func TestMinorCallsAreFolded(t *testing.T) {
	var m minors
	start := time.Now()
	at := func(after time.Duration, principal string, want int64) {
		t.Helper()
		if n, others := m.note(start.Add(after), keyOf(principal)); n != want || others {
			t.Errorf("after %v an event of %s stands for %d calls (others: %t), want %d", after, principal, n, others, want)
		}
	}
	at(0, "token:a", 1)
	for range 99 {
		at(minorEvery/2, "token:a", 0)
	}
	at(minorEvery/2, "token:b", 1)
	at(minorEvery, "token:a", 100)
	at(minorEvery, "token:b", 0)
	at(minorEvery+1, "token:a", 0)
	at(3*minorEvery, "token:b", 2)
	at(3*minorEvery, "token:a", 2)
	other := keyOf("token:a")
	other.outcome = outcome(codes.NotFound)
	if n, _ := m.note(start.Add(3*minorEvery), other); n != 1 {
		t.Errorf("another outcome stands for %d calls, want 1", n)
	}
}

// TestManyKeysAreOneEvent: there are so many keys a second, and then one event for all others. No
// call is lost, and memory is bounded.
func TestManyKeysAreOneEvent(t *testing.T) {
	var m minors
	start := time.Now()
	var events, counted int64
	note := func(now time.Time, principal string) {
		n, others := m.note(now, keyOf(principal))
		if n == 0 {
			return
		}
		events++
		counted += n
		if own := m.counts[keyOf(principal)] != nil; own == others {
			t.Errorf("the event of %s is one of others: %t", principal, others)
		}
	}
	const calls = 10_000
	for i := range calls {
		note(start, fmt.Sprint("token:", i))
	}
	if events != maxMinorKeys+1 || len(m.counts) != maxMinorKeys {
		t.Errorf("%d calls of as many principals are %d events and %d keys, want %d and %d", calls, events, len(m.counts), maxMinorKeys+1, maxMinorKeys)
	}
	for i := range calls { // those that have an event come again, all within that second
		note(start.Add(minorEvery-1), fmt.Sprint("token:", i%maxMinorKeys))
	}
	if events != maxMinorKeys+1 {
		t.Errorf("within a second there are %d events, want %d", events, maxMinorKeys+1)
	}
	// Others take the place of who is gone; what was counted of those is not lost.
	for i := range maxMinorKeys + 1 {
		note(start.Add(2*minorEvery), fmt.Sprint("token:new", i))
	}
	if counted != 2*calls+maxMinorKeys+1 || len(m.counts) != maxMinorKeys {
		t.Errorf("the events stand for %d calls with %d keys, want %d with %d", counted, len(m.counts), 2*calls+maxMinorKeys+1, maxMinorKeys)
	}
}
