package verdict

import (
	"fmt"
	"slices"
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Excludes says what the requests of a report without a difference exclude at 95 %: "that excludes more
// than 39% of callers". It is about what the live policy allows, else about what it denies; empty if
// something differs, or if that is not known.
//
// Forty requests without a difference do not say that there is none. They say what share of all requests
// would have shown itself in forty with a probability of 95 %: the bound of Clopper and Pearson, at one
// side. Over callers it is wider and true; requests of one caller are not independent.
func Excludes(r *adminpb.Report) string {
	if differing(r) > 0 {
		return ""
	}
	b, whose := report.BoundOf(r, adminpb.Report_NEWLY_DENIED), ""
	if b == nil {
		b, whose = report.BoundOf(r, adminpb.Report_NEWLY_ALLOWED), " that the live policy denies"
	}
	if b == nil {
		return ""
	}
	return "that excludes more than " + report.About(b.UpperRatio) + " of " + unitOf(b) + whose + condition(b)
}

// Bounds are what a report excludes at 95 %, with the numbers behind it, a sentence for each kind:
// "newly denied: at most 39% of callers (0 of 6), 7.2% of requests if they are independent (0 of 40)".
func Bounds(r *adminpb.Report) (texts []string) {
	for _, kind := range []adminpb.Report_Kind{adminpb.Report_NEWLY_DENIED, adminpb.Report_NEWLY_ALLOWED} {
		var parts []string
		for _, b := range r.GetBounds() {
			if b.GetKind() == kind {
				parts = append(parts, fmt.Sprintf("%s of %s%s (%s)", report.About(b.UpperRatio), unitOf(b), condition(b), behind(b)))
			}
		}
		if len(parts) > 0 {
			texts = append(texts, NameOf(kind)+": at most "+strings.Join(parts, ", "))
		}
	}
	return texts
}

// unitOf is what a bound is of.
func unitOf(b *adminpb.Report_Bound) string {
	if b.GetUnit() == adminpb.Report_Bound_CALLERS {
		return "callers"
	}
	return "requests"
}

// condition says when a bound holds, if that is in doubt.
//
// One caller who sends the same request a thousand times is one observation and not a thousand.
func condition(b *adminpb.Report_Bound) string {
	if b.GetUnit() == adminpb.Report_Bound_CALLERS {
		return ""
	}
	return " if they are independent"
}

// behind are the numbers behind a bound.
//
// A sample that chance drew with different probabilities is as precise as fewer requests drawn alike.
func behind(b *adminpb.Report_Bound) string {
	text := report.Number(b.GetDifferingCount()) + " of " + report.Number(b.GetCount())
	if b.GetEstimated() {
		text = "as precise as " + text
	}
	return text
}

// A week begins on Monday, 00:00 UTC, as the hours of evidence do.
const (
	hoursOfDay  = 24
	hoursOfWeek = 7 * hoursOfDay
	// maxHourParts is how many parts of a week are told each. More are a number.
	maxHourParts = 3
)

var weekdays = [...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

// Hours says in which hours of the week something was compared: "hours of the week seen: 30 of 168,
// Monday to Friday 06:00 to 12:00 UTC". It is empty if nothing was, or something in each.
//
// A policy that reads the clock decides otherwise at night: a morning's traffic shows nothing of that.
func Hours(r *adminpb.Report) string {
	n := len(r.GetWeekHours())
	if n == 0 || n == hoursOfWeek {
		return ""
	}
	text := fmt.Sprintf("hours of the week seen: %d of %d", n, hoursOfWeek)
	if parts := partsOfWeek(r.GetWeekHours()); len(parts) <= maxHourParts {
		text += ", " + strings.Join(parts, ", ") + " UTC"
	}
	return text
}

// partsOfWeek are the days of the same hours, with these.
//
// Days with the same hours that follow each other are one part: "Monday to Friday 06:00 to 12:00".
func partsOfWeek(hours []int32) (parts []string) {
	days := make([]string, len(weekdays)+1) // one more, without any hour
	for day := range weekdays {
		days[day] = partsOfDay(hours, day*hoursOfDay)
	}
	for first := 0; first < len(weekdays); {
		end := first + 1
		for days[end] == days[first] && end < len(weekdays) {
			end++
		}
		name := weekdays[first]
		if end > first+1 {
			name += " to " + weekdays[end-1]
		}
		if days[first] != "" {
			parts = append(parts, name+" "+days[first])
		}
		first = end
	}
	return parts
}

// partsOfDay are the hours of a day, which begins at an hour of the week: "06:00 to 12:00 and 14:00 to
// 15:00".
func partsOfDay(hours []int32, from int) string {
	seen := func(hour int) bool {
		return hour < hoursOfDay && slices.Contains(hours, int32(from+hour)) // hours of a week
	}
	var parts []string
	for hour := 0; hour < hoursOfDay; hour++ {
		if !seen(hour) {
			continue
		}
		first := hour
		for seen(hour) {
			hour++
		}
		parts = append(parts, fmt.Sprintf("%02d:00 to %02d:00", first, hour))
	}
	return strings.Join(parts, " and ")
}
