package extauthz

import (
	"slices"
	"strings"

	"understudy/rego"
)

// pathPart is input.parsed_path. A policy that looks at some segments, by their
// places, does not depend on the others: many paths are one to it.
type pathPart struct{}

func (pathPart) plan(reads *rego.Reads) []*plan {
	if places, ok := reads.Indexes(); ok && len(places) > 0 {
		slices.Sort(places)
		return []*plan{{part: segmentsPart(places)}}
	}
	return []*plan{{part: derivedPart{(*view).path, pathValue}}}
}

func (pathPart) key(_ *view, b []byte) ([]byte, bool) { return b, true }

func (pathPart) value(v *view, below []*plan) (rego.Value, error) { return below[0].value(v) }

// segmentsPart are the segments at some places, sorted. In their array, those between
// them are empty and those after them are missing.
type segmentsPart []int

func (segmentsPart) plan(*rego.Reads) []*plan { return nil }

func (s segmentsPart) key(v *view, b []byte) ([]byte, bool) {
	for _, segment := range s.of(v) {
		b = appendText(append(b, 1), segment)
	}
	return append(b, 0), false
}

func (s segmentsPart) value(v *view, _ []*plan) (rego.Value, error) {
	var out []string
	for i, segment := range s.of(v) {
		for len(out) < s[i] {
			out = append(out, "")
		}
		out = append(out, segment)
	}
	return rego.Strings(out), nil
}

// of returns the segments at the places, as far as the path has them.
func (s segmentsPart) of(v *view) []string {
	path := v.path()
	if strings.Contains(path, "%") {
		// A view has seen that it parses.
		segments, _ := parsePath(path)
		path = strings.Join(segments, "/")
	}
	var out []string
	place := 0
	for segment := range strings.SplitSeq(strings.TrimLeft(path, "/"), "/") {
		if len(out) == len(s) {
			break
		}
		if place == s[len(out)] {
			out = append(out, segment)
		}
		place++
	}
	return out
}
