package verdict

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/report"
)

// Counted is [report.Counted], a number with its noun.
func Counted(n int64, what string) string { return report.Counted(n, what) }

// Share writes a part of a whole in percent. It never rounds to nothing or to all what
// is not: 1 of 1,000,000 is "< 0.01%", and 999,999 of them are "> 99.99%".
//
// A reader takes 0% for never and 100% for always; so those two are written for exactly that.
func Share(part, whole int64) string {
	switch {
	case whole <= 0:
		return "-"
	case part == 0:
		return "0%"
	case part == whole:
		return "100%"
	}
	percent := 100 * float64(part) / float64(whole)
	switch {
	case percent < 0.01:
		return "< 0.01%"
	case percent > 99.99:
		return "> 99.99%"
	case percent > 99.9, percent < 0.1:
		return fmt.Sprintf("%.2f%%", percent)
	case percent > 99, percent < 10:
		return trimZero(fmt.Sprintf("%.1f", percent)) + "%"
	default:
		return fmt.Sprintf("%.0f%%", percent)
	}
}

// trimZero writes 5.0 as 5.
func trimZero(number string) string { return strings.TrimSuffix(number, ".0") }

// Period writes a duration as people say it: two units at most, 1h5m, 2m30s, 0.5s.
//
// A preview lasts seconds in a test and weeks in production.
func Period(d *durationpb.Duration) string {
	p := d.AsDuration()
	switch {
	case p < time.Minute:
		return p.Round(100 * time.Millisecond).String()
	case p < time.Hour:
		return strings.TrimSuffix(p.Round(time.Second).String(), "m0s") + minuteIfCut(p.Round(time.Second))
	case p < 48*time.Hour:
		return strings.TrimSuffix(p.Round(time.Minute).String(), "0s")
	default:
		hours := int64(p.Round(time.Hour) / time.Hour)
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
}

// minuteIfCut gives a whole number of minutes its unit back.
func minuteIfCut(p time.Duration) string {
	if p%time.Minute == 0 && p < time.Hour {
		return "m"
	}
	return ""
}
