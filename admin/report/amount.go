package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
)

// Number writes a count for people: 9,120.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Callers writes a number of distinct callers for people: up to 32 are counted, and of the estimate of more two
// digits are enough: about 320.
func Callers(n int64) string {
	if !evidence.IsEstimate(n) {
		return Number(n)
	}
	unit := math.Pow(10, math.Floor(math.Log10(float64(n)))-1)
	return "about " + Number(int64(math.Round(float64(n)/unit)*unit))
}

// CountedCallers is Callers with its noun: 1 caller, about 320 callers.
func CountedCallers(n int64) string {
	if n == 1 {
		return "1 caller"
	}
	return Callers(n) + " callers"
}

// Share writes a share for people, in percent of three significant digits: 0.13%.
func Share(share float64) string {
	percent := 100 * share
	digits := 0
	if percent > 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(percent))))
	}
	text := strconv.FormatFloat(percent, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "%"
}

// roughly writes a share of which two digits are enough, rounded as round does.
func roughly(share float64, round func(float64) float64) string {
	if share <= 0 {
		return Share(0)
	}
	unit := math.Pow(10, math.Floor(math.Log10(share))-1)
	return Share(round(share/unit) * unit)
}

// About writes a share of which two digits are enough: 0.13%, 39%.
func About(share float64) string { return roughly(share, math.Round) }

// Duration writes a duration without the units that are zero: 1h, and not 1h0m0s.
func Duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// formatCount writes a count as parseCount reads it.
func formatCount(n int64) string { return strconv.FormatInt(n, 10) }

// parseCount reads a whole number.
func parseCount(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("the count is too large: write a smaller one")
	case err != nil:
		return 0, errors.New("a count is a whole number without separators, such as 10000, and a share has a % behind it, such as 0.1%")
	}
	return int64(n), nil
}

// percentage is what a share looks like without its %.
var percentage = regexp.MustCompile(`^[0-9]{1,400}(\.[0-9]{1,400})?$`)

// formatShare writes a share in percent, exactly: the same decimal digits, two places on.
func formatShare(share float64) string {
	text := strconv.FormatFloat(math.Abs(share), 'f', -1, 64) // a share of -0 is 0
	whole, fraction, _ := strings.Cut(text, ".")
	fraction += strings.Repeat("0", max(0, 2-len(fraction)))
	whole, fraction = strings.TrimLeft(whole+fraction[:2], "0"), strings.TrimRight(fraction[2:], "0")
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole + "%"
}

// parseShare reads what formatShare writes, without rounding in between.
func parseShare(text string) (float64, error) {
	text, percent := strings.CutSuffix(text, "%")
	if !percent || !percentage.MatchString(text) {
		return 0, errors.New("a share is a percentage from 0% to 100%, such as 0.1%")
	}
	whole, fraction, _ := strings.Cut(text, ".")
	whole = "00" + whole
	share, err := strconv.ParseFloat(whole[:len(whole)-2]+"."+whole[len(whole)-2:]+fraction, 64)
	if err != nil || share > 1 {
		return 0, errors.New("a share is at most 100%")
	}
	return share, nil
}

// confidence is what stands behind a share that is a bound, and ofRequests what stands behind that, if it
// is one of requests.
const (
	confidence = "@95"
	ofRequests = "/requests"
)

// boundParser returns what reads a share above 0 with this behind it.
func boundParser(behind string) func(text string) (float64, error) {
	return func(text string) (float64, error) {
		text, cut := strings.CutSuffix(text, behind)
		share, err := parseShare(text)
		switch {
		case !cut || err != nil:
			return 0, errors.New("a bound is a percentage up to 100% with @95 behind it, such as 0.1%@95, or 0.1%@95/requests for one of requests")
		case share == 0:
			return 0, errors.New("a bound is above 0%: however many requests differ in nothing, the next one may; without @95 a limit may be 0")
		default:
			return share, nil
		}
	}
}

// days is what time.ParseDuration has no unit for.
var days = regexp.MustCompile(`^([0-9]{1,6})d`)

// parseDuration reads a duration, also of days.
func parseDuration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	rest, whole := text, 0
	if d := days.FindStringSubmatch(text); d != nil {
		whole, _ = strconv.Atoi(d[1]) // at most six digits
		rest = cmp.Or(text[len(d[0]):], "0s")
	}
	d, err := time.ParseDuration(rest)
	if err != nil || strings.ContainsAny(rest, "+-") {
		return 0, errors.New("a duration has a unit, such as 30m, 1h30m or 7d")
	}
	if whole > int(content.MaxRequiredDuration/day) || d > content.MaxRequiredDuration-time.Duration(whole)*day {
		return 0, fmt.Errorf("the duration is too long: at most %s", Duration(content.MaxRequiredDuration))
	}
	return time.Duration(whole)*day + d, nil
}

// parseScope reads the scope.
func parseScope(text string) (adminpb.CommitRequirements_Scope, error) {
	switch text {
	case allPairs:
		return adminpb.CommitRequirements_ALL_PAIRS, nil
	case presentPair:
		return adminpb.CommitRequirements_PRESENT_PAIR, nil
	}
	return 0, fmt.Errorf("the scope is %s or %s", presentPair, allPairs)
}

// Counted is a number with its noun, which is regular: "1 policy", "9,800 policies".
func Counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return Number(n) + " " + stem + "ies"
	}
	return Number(n) + " " + what + "s"
}
