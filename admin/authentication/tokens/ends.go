package tokens

import (
	"crypto/sha256"
	"log/slog"
	"slices"
	"time"
)

// Soon is how long before its end it is said that a token expires.
const Soon = 7 * 24 * time.Hour

// maxNamed bounds the names in one line of the log.
const maxNamed = 20

// Expiry returns when the first name has no valid token any more. Of a name with several tokens the one counts that
// expires last. Expiry is the zero time if no name is without a token one day. A name whose tokens all expired more
// than Soon ago does not count: its lines are leftovers.
func (f *Files) Expiry() (first time.Time) {
	now := f.now()
	for _, last := range lastExpiries(*f.entries.Load()) {
		if last.IsZero() || now.Sub(last) > Soon {
			continue
		}
		if first.IsZero() || last.Before(first) {
			first = last
		}
	}
	return first
}

// lastExpiries returns for each name when its last token expires; the zero time if one of its tokens does not.
func lastExpiries(entries []entry) map[string]time.Time {
	out := make(map[string]time.Time)
	for _, e := range entries {
		last, found := out[e.name]
		if !found || !last.IsZero() && (e.expires.IsZero() || e.expires.After(last)) {
			out[e.name] = e.expires
		}
	}
	return out
}

// ends remembers of which tokens the log has said that they expire, and that they have. The zero
// value is ready.
type ends struct {
	soon, over map[[sha256.Size]byte]bool
}

// warn says once of each token that it expires soon, and once that it has expired.
func (e *ends) warn(log *slog.Logger, entries []entry, now time.Time) {
	soon, over := map[[sha256.Size]byte]bool{}, map[[sha256.Size]byte]bool{}
	var begin, end []string
	for _, t := range entries {
		switch {
		case t.expires.IsZero() || now.Before(t.expires.Add(-Soon)):
		case t.expired(now):
			over[t.digest] = true
			if !e.over[t.digest] {
				end = append(end, t.name)
			}
		default:
			soon[t.digest] = true
			if !e.soon[t.digest] {
				begin = append(begin, t.name+" "+t.expires.Format(time.RFC3339))
			}
		}
	}
	e.soon, e.over = soon, over
	logTokens(log, "tokens expire within a week: make others with `understudy token`", begin)
	logTokens(log, "tokens have expired, and are refused", end)
}

// logTokens logs a line about tokens, if there are any.
func logTokens(log *slog.Logger, text string, names []string) {
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	log.Warn(text, "tokens", names[:min(len(names), maxNamed)], "count", len(names))
}
