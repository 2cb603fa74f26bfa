package tokens

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestTokensExpire: to the second, each for itself, and each has its reason.
func TestTokensExpire(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	short, shortLine, err := New("ci", at.In(time.FixedZone("", 7200)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(shortLine, " 2030-01-31T12:00:00Z") {
		t.Errorf("the line is %s", shortLine)
	}
	endless, endlessLine := made(t, "ci")
	f := open(t, written(t, shortLine, endlessLine))
	for moment, want := range map[time.Time]error{at.Add(-time.Second): nil, at: ErrExpired, at.Add(time.Hour): ErrExpired} {
		f.now = func() time.Time { return moment }
		b, err := f.Find(short)
		if !errors.Is(err, want) || err == nil && (b.Name != "ci" || !b.Expires.Equal(at)) || err != nil && b != (Bearer{}) {
			t.Errorf("at %s: %+v, %v, want %v", moment, b, err, want)
		}
		if b, err := f.Find(endless); err != nil || !b.Expires.IsZero() {
			t.Errorf("a token without an end at %s: %+v, %v", moment, b, err)
		}
	}
	if _, err := f.Find("ustk_x"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown token: %v", err)
	}
	f.now = func() time.Time { return at }
	write(t, f.files[0].path, shortLine)
	f.now = func() time.Time { return at }
	f.refresh("")
	if names := f.Names(); len(names) != 0 {
		t.Errorf("the names of tokens that have expired are %q", names)
	}
}

// TestFilesAreTheSame however often they are read: a time in another zone is no other file.
func TestFilesAreTheSame(t *testing.T) {
	t.Parallel()
	_, line := made(t, "ci")
	var log bytes.Buffer
	f, err := Open([]string{written(t, line+" 2030-01-31T12:00:00+05:30")}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	f.refresh("")
	if log.Len() > 0 {
		t.Errorf("nothing changed, but the log says %s", &log)
	}
}

// TestEndsAreWarnedOf once a week before, once when they are there, and by name alone.
func TestEndsAreWarnedOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var lines []string
	for name, after := range map[string]time.Duration{"late": Soon + time.Hour, "soon": Soon - time.Hour, "over": -time.Hour} {
		_, line, err := New(name, now.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	_, endless := made(t, "endless")
	f := open(t, written(t, append(lines, endless)...))
	var log bytes.Buffer
	e, logger := &ends{}, slog.New(slog.NewTextHandler(&log, nil))
	expect := func(at time.Time, want ...string) {
		t.Helper()
		log.Reset()
		for range 3 {
			e.warn(logger, *f.entries.Load(), at)
		}
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		if log.Len() == 0 {
			got = nil
		}
		if len(got) != len(want) {
			t.Fatalf("at %s the log has %q, want %q", at, got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) || !strings.Contains(got[i], "level=WARN") {
				t.Errorf("at %s the log has %q, want %q", at, got[i], want[i])
			}
		}
		for _, line := range append(lines, endless) {
			if strings.Contains(log.String(), strings.Fields(line)[1]) {
				t.Errorf("the log has a digest: %s", &log)
			}
		}
	}
	expect(now, `expire within a week: make others with `+"`understudy token`"+`" tokens="[soon 2030-01-07T23:00:00Z]" count=1`, `have expired, and are refused" tokens=[over] count=1`)
	expect(now.Add(2*time.Hour), `tokens="[late 2030-01-08T01:00:00Z]"`)
	expect(now.Add(Soon), `tokens=[soon]`)
	expect(now.Add(Soon+2*time.Hour), `tokens=[late]`)
}

// TestExpiry: of a name the last token counts, and leftovers do not.
func TestExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	expires := func(name string, after time.Duration) string {
		_, line, err := New(name, now.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	_, endless := made(t, "ci")
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		lines []string
		want  time.Time
	}{
		"no token expires":                    {[]string{endless}, time.Time{}},
		"the first of two names":              {[]string{expires("a", 3*day), expires("b", 2*day)}, now.Add(2 * day)},
		"the last token of a name":            {[]string{expires("a", day), expires("a", 3*day), expires("a", 2*day)}, now.Add(3 * day)},
		"a name has a token without an end":   {[]string{expires("ci", day), endless, expires("a", 4*day)}, now.Add(4 * day)},
		"a token that has expired":            {[]string{expires("a", -day), expires("b", day)}, now.Add(-day)},
		"a token that expired long ago":       {[]string{expires("a", -Soon-day), expires("b", day)}, now.Add(day)},
		"all tokens have expired, a week ago": {[]string{expires("a", -Soon-day)}, time.Time{}},
	} {
		f := open(t, written(t, c.lines...))
		f.now = func() time.Time { return now }
		if got := f.Expiry(); !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
