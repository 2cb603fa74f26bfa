package evidence

import (
	"regexp"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Expectations are the differences that the author of an experiment means to make: its `expects`.
// They are immutable, and safe for concurrent use.
type Expectations []expectation

type expectation struct {
	kind     kind
	method   string
	segments []string
	labels   map[string]string
}

// NewExpectations returns those of an experiment.
func NewExpectations(expects []*adminpb.Expectation) Expectations {
	out := make(Expectations, 0, len(expects))
	for _, e := range expects {
		out = append(out, expectation{
			kind: e.GetKind(), method: e.GetMethod(), segments: strings.Split(e.GetPath(), "/"), labels: e.GetLabels(),
		})
	}
	return out
}

// Covering returns the number, from 1, of the first expectation that covers a request with an outcome;
// 0 if none does.
func (all Expectations) Covering(r *authz.Request, o *Outcome) int32 {
	for i := range all {
		if e := &all[i]; e.kind == o.kind && (e.method == "" || e.method == r.Method) && e.hasLabels(o.labels) && e.hasPath(r.Path) {
			return int32(i + 1) // there are at most 32
		}
	}
	return 0
}

func (e *expectation) hasLabels(labels []authz.Label) bool {
	found := 0
	for _, l := range labels {
		if value, named := e.labels[l.Name]; named {
			if value != l.Value {
				return false
			}
			found++
		}
	}
	return found == len(e.labels)
}

// hasPath compares segment by segment, and copies nothing.
func (e *expectation) hasPath(path string) bool {
	rest, _, _ := strings.Cut(path, "?")
	more := true
	for i, want := range e.segments {
		if !more {
			return false
		}
		if want == anyRest && i == len(e.segments)-1 {
			return allPlain(rest)
		}
		var segment string
		segment, rest, more = segments(rest)
		if !covers(want, segment) {
			return false
		}
	}
	return !more
}

// covers reports whether a segment of an expectation stands for one of a path.
func covers(want, segment string) bool {
	ending, wildcard := strings.CutPrefix(want, anySegment)
	if !wildcard {
		return want == segment
	}
	start, ends := strings.CutSuffix(segment, ending)
	return ends && start != "" && isPlain(segment)
}

func allPlain(rest string) bool {
	for more := true; more; {
		var segment string
		if segment, rest, more = segments(rest); !isPlain(segment) {
			return false
		}
	}
	return true
}

// ambiguous is what a server behind the proxy may take for something else than a part of one segment.
var ambiguous = regexp.MustCompile(`^\.{0,2}(;|$)|\\|%(?i:2e|2f|5c|25)`)

// isPlain reports whether a segment is one for any server that reads the path.
func isPlain(segment string) bool { return !ambiguous.MatchString(segment) }
