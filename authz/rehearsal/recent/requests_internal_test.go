package recent

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/authz"
)

// sent is a request that can be made again, with a body of so many bytes.
type sent int

func (sent) Reread() func() (*authz.Request, error) {
	return func() (*authz.Request, error) { return &authz.Request{Method: "GET"}, nil }
}

func (s sent) BodySize() int { return int(s) }

func (sent) CheckRequest(bool) string { return "" }

// sample is one with a clock and draws of the test's own.
func sample(most int) (*Requests, *time.Time) {
	now := time.Unix(1_800_000_000, 0)
	s := New(most)
	s.draw = rand.New(rand.NewPCG(1, 2)).Uint64
	s.clock = func() time.Time { return now }
	return s, &now
}

func offer(s *Requests, id string, size int) {
	s.Offer(Version{"p", "W/1"}, &authz.Request{ID: id, Size: size, Sent: sent(0)}, authz.Decision{Effect: authz.Allow})
}

// ids are the requests that a version of the policy p has decided, by their IDs.
func ids(t *testing.T, s *Requests, etag string) (out []string) {
	t.Helper()
	for _, r := range s.Of(Version{"p", etag}, time.Time{}, time.Unix(1_900_000_000, 0)) {
		request, err := r.Kept.Request()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, request.ID)
	}
	return out
}

func TestWithoutASampleNothingIsKept(t *testing.T) {
	s := New(0)
	offer(s, "a", 1)
	s.Forget(Version{"p", ""})
	if got := s.Of(Version{"p", "W/1"}, time.Time{}, time.Now()); s != nil || got != nil {
		t.Errorf("got %v, %v; want nothing", s, got)
	}
}

// TestTheSampleIsSpreadOverTheHour offers 36,000 requests, ten a second, and looks where those
// that are kept come from.
func TestTheSampleIsSpreadOverTheHour(t *testing.T) {
	s, now := sample(600)
	for i := range 36_000 {
		*now = now.Add(100 * time.Millisecond)
		offer(s, strconv.Itoa(i), 100)
	}
	var quarters [4]int
	for _, id := range ids(t, s, "W/1") {
		i, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		quarters[i/9000]++
	}
	for i, n := range quarters {
		if n < 110 || n > 190 { // 150 give or take four deviations
			t.Errorf("%d of 600 are of quarter %d of the hour, want about 150", n, i)
		}
	}
}

// TestTheSampleGoesWithTheHour sends requests for three hours, fewer and fewer.
func TestTheSampleGoesWithTheHour(t *testing.T) {
	s, now := sample(100)
	// There is room for all of the last hour, and yet some were passed over while there was not.
	atLeast := []int{100, 95, 50}
	for hour, every := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute} {
		for begin := *now; now.Sub(begin) < time.Hour; *now = now.Add(every) {
			offer(s, strconv.Itoa(hour), 100)
			if now.Sub(begin)%sweepTime == 0 {
				s.sweep()
			}
		}
		kept := ids(t, s, "W/1")
		if len(kept) < atLeast[hour] || len(kept) > 100 {
			t.Errorf("hour %d: %d are kept, want %d to 100", hour, len(kept), atLeast[hour])
		}
		if i := slices.IndexFunc(kept, func(id string) bool { return id != strconv.Itoa(hour) }); i >= 0 && hour > 0 && kept[i] != strconv.Itoa(hour-1) {
			t.Errorf("hour %d: one is of hour %s", hour, kept[i])
		}
	}
	*now = now.Add(2 * time.Hour)
	s.sweep()
	if len(s.kept) != 0 || s.bytes != 0 {
		t.Errorf("after two hours without requests %d are kept, with %d bytes; want none", len(s.kept), s.bytes)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	s, _ := sample(1_000_000)
	large := authz.Decision{Body: strings.Repeat("x", 1000), Metadata: map[string]any{"a": []any{strings.Repeat("x", 1000)}}}
	for i := range 5000 {
		s.Offer(Version{"p", "W/1"}, &authz.Request{ID: strconv.Itoa(i), Size: 10_000, Sent: sent(4096)}, large)
	}
	if s.bytes > 16<<20 || s.bytes < 15<<20 {
		t.Errorf("%d bytes are kept, want 16 MiB at most, and nearly so many", s.bytes)
	}
	if n := len(s.kept); n > (16<<20)/12_000 {
		t.Errorf("%d requests of 12,000 bytes are kept in 16 MiB", n)
	}
	one, _ := sample(1)
	for range 3 {
		one.Offer(Version{"p", "W/1"}, &authz.Request{ID: "body", Sent: sent(4097)}, authz.Decision{})
		one.Offer(Version{"p", "W/1"}, &authz.Request{ID: "reservation"}, authz.Decision{})
	}
	if n := len(one.kept); n != 0 {
		t.Errorf("%d requests are kept that are too large or cannot be made again", n)
	}
	offer(one, "a", 17<<20)
	if len(one.kept) != 0 || one.bytes != 0 {
		t.Errorf("a request of 17 MiB is kept")
	}
}

func TestOtherVersionsAreForgotten(t *testing.T) {
	s, now := sample(10)
	offer(s, "a", 1)
	*now = now.Add(time.Minute)
	begun := *now
	s.Offer(Version{"p", "W/2"}, &authz.Request{ID: "b", Sent: sent(0)}, authz.Decision{})
	s.Offer(Version{"q", "W/1"}, &authz.Request{ID: "c", Sent: sent(0)}, authz.Decision{})
	if got := ids(t, s, "W/1"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("W/1 has decided %v, want a", got)
	}
	if got := s.Of(Version{"p", "W/2"}, time.Time{}, begun); len(got) != 0 {
		t.Errorf("%d are from before the moment at which the first was kept", len(got))
	}
	if got := s.Of(Version{"p", "W/2"}, begun, begun.Add(time.Hour)); len(got) != 0 {
		t.Errorf("%d are from after the moment at which the last was kept", len(got))
	}
	s.Forget(Version{"p", "W/2"})
	if got := append(ids(t, s, "W/1"), ids(t, s, "W/2")...); !slices.Equal(got, []string{"b"}) || len(s.kept) != 2 {
		t.Errorf("%v of p are left, and %d of all; want b and 2", got, len(s.kept))
	}
}
