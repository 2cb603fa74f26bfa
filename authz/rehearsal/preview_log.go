package rehearsal

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"understudy/authz"
)

// PreviewLog says which comparisons are recorded. Those that differ always are, and
// all are counted. The zero value records every one, as AIP-236 asks. It is safe for
// concurrent use.
type PreviewLog struct {
	// skipped is the part of the comparisons of equal outcome that is left out.
	skipped float64
}

var errPreviewLog = errors.New("it is all, differing, or sampled:RATE with a rate from 0 to 1 such as sampled:0.01")

// ParsePreviewLog reads all, differing, or sampled:RATE: besides all that differ, the
// records of that part of the requests, by chance and alike for every experiment.
func ParsePreviewLog(s string) (PreviewLog, error) {
	switch s {
	case "all":
		return PreviewLog{}, nil
	case "differing":
		return PreviewLog{skipped: 1}, nil
	}
	number, ok := strings.CutPrefix(s, "sampled:")
	rate, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(rate) || rate < 0 || rate > 1 {
		return PreviewLog{}, errPreviewLog
	}
	return PreviewLog{skipped: 1 - rate}, nil
}

// keeps reports whether a comparison on the request of a decision ID is recorded.
func (l PreviewLog) keeps(d authz.Difference, decisionID string) bool {
	return d != authz.Unchanged || authz.Sampled(decisionID, 1-l.skipped)
}

// sampled reports whether a record stands for others, and the part that it is.
func (l PreviewLog) sampled(d authz.Difference) (rate float64, ok bool) {
	return 1 - l.skipped, l.skipped > 0 && d == authz.Unchanged
}
