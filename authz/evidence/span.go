package evidence

import (
	"cmp"
	"slices"

	evidencepb "understudy/authz/evidence/v1"
)

// maxSpans is how many spans of time are kept.
const maxSpans = 32

// span is a span of time, in Unix milliseconds.
type span struct{ begin, end int64 }

// union returns the spans in order of time and without overlap. Of too many the shortest go:
// the sum is rather too short than too long.
func union(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	var out []span
	for _, s := range spans {
		switch last := len(out) - 1; {
		case s.end <= s.begin:
		case last >= 0 && s.begin <= out[last].end:
			out[last].end = max(out[last].end, s.end)
		default:
			out = append(out, s)
		}
	}
	for len(out) > maxSpans {
		shortest := 0
		for i, s := range out {
			if s.end-s.begin < out[shortest].end-out[shortest].begin {
				shortest = i
			}
		}
		out = slices.Delete(out, shortest, shortest+1)
	}
	return out
}

func spansOf(spans []*evidencepb.Span) []span {
	out := make([]span, 0, len(spans))
	for _, s := range spans {
		out = append(out, span{s.GetBegin(), s.GetEnd()})
	}
	return out
}

func spanMessages(spans []span) []*evidencepb.Span {
	out := make([]*evidencepb.Span, 0, len(spans))
	for _, s := range spans {
		out = append(out, &evidencepb.Span{Begin: s.begin, End: s.end})
	}
	return out
}
