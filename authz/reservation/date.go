package reservation

import (
	"fmt"
	"strings"
	"time"
)

// The names of a lease's dates: first those that Blazar sends, then those of its
// specification.
var (
	startFields = []string{"start_date", "start_time"}
	endFields   = []string{"end_date", "end_time"}
)

// layouts are the forms of a date, after the T of ISO 8601 has become a space. A time
// without a zone is UTC, as Blazar has it; Go reads a fraction after the seconds too.
var layouts = []string{
	"2006-01-02 15:04",
	"2006-01-02 15:04:05",
	"2006-01-02 15:04Z07:00",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04Z0700",
	"2006-01-02 15:04:05Z0700",
}

// dateOf returns the date that the lease has under one of the names, else that which
// current has; zero if neither has one. If what is there cannot be read, wrong is a
// sentence that says so and quotes nothing.
func dateOf(what string, names []string, lease, current map[string]any) (date time.Time, wrong string) {
	for _, document := range []map[string]any{lease, current} {
		if date, wrong = dateIn(what, names, document); wrong != "" || !date.IsZero() {
			return date, wrong
		}
	}
	return time.Time{}, ""
}

// dateIn returns the date that a lease has under one of the names. Two names with two
// dates would mean one thing to one filter and another to the next.
func dateIn(what string, names []string, lease map[string]any) (time.Time, string) {
	var found time.Time
	for _, name := range names {
		value, present := lease[name]
		if !present || value == nil {
			continue
		}
		date, ok := parseDate(text(value))
		if !ok {
			return time.Time{}, fmt.Sprintf(
				"The lease's %s is no date: it has to be like 2026-11-21 15:04, 2026-11-21T15:04:05 or 2026-11-21T15:04:05Z.", name)
		}
		if !found.IsZero() && !found.Equal(date) {
			return time.Time{}, fmt.Sprintf("The lease has two dates for its %s: %s have to be the same, or one has to go.",
				what, strings.Join(names, " and "))
		}
		found = date
	}
	return found, ""
}

// parseDate reads a date that is not the zero time. The zero time means "no date"
// everywhere in this package, so that a lease in the year 1 is refused instead of
// having no limits.
func parseDate(s string) (time.Time, bool) {
	if len(s) > len("2006-01-02") && s[len("2006-01-02")] == 'T' {
		s = s[:len("2006-01-02")] + " " + s[len("2006-01-02T"):]
	}
	for _, layout := range layouts {
		if date, err := time.Parse(layout, s); err == nil && !date.IsZero() {
			return date.UTC(), true
		}
	}
	return time.Time{}, false
}
