package testgen

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"understudy/authz"
	"understudy/authz/replay"
	"understudy/rego"
)

// maxTries bounds how many documents are tried for one example.
const maxTries = 3000

// subject is a request whose document is being changed.
type subject struct {
	live, candidate *authz.Policy
	of              replay.Example
	document        any
	tries           int
	// clock says that a decision depends on the time.
	clock bool
	// decisions of the present document.
	liveMade, candidateMade authz.Decision
}

// holds reports whether the policies differ about the document as they did, for the same
// reasons.
func (s *subject) holds(ctx context.Context) bool {
	s.tries++
	if s.tries > maxTries || ctx.Err() != nil {
		return false
	}
	live, candidate := s.decide(ctx, s.live), s.decide(ctx, s.candidate)
	same := authz.Compare(live, candidate) == s.of.Difference && alike(live, s.of.Live) && alike(candidate, s.of.Candidate)
	if same {
		s.liveMade, s.candidateMade = live, candidate
		s.clock = live.Timed() || candidate.Timed()
	}
	return same
}

// alike reports whether a decision is made by the same rule, for the same reason.
func alike(a, b authz.Decision) bool {
	return a.Effect == b.Effect && a.Failure == b.Failure && a.Rule == b.Rule && a.RulePath() == b.RulePath() && a.Status() == b.Status()
}

// decisionTime bounds one decision.
const decisionTime = 5 * time.Second

func (s *subject) decide(ctx context.Context, p *authz.Policy) authz.Decision {
	input, err := rego.ValueOf(s.document)
	if err != nil {
		return authz.Failed(authz.FailureRequest, "")
	}
	r := &authz.Request{
		Operation: authz.OperationCheck, Time: s.of.Time,
		Source: func(*authz.ReadBudget) (rego.Input, error) { return input.Input(), nil },
	}
	return p.Decide(ctx, r, authz.Conditions{Shadow: true, Timeout: decisionTime})
}

// minimise takes out of the document what can be, but for its route, again and again, until
// nothing more can: whole parts first, since most of a request matters to nobody.
func (s *subject) minimise(ctx context.Context) {
	r := reduction{route: routeOf(s.document), holds: func() bool { return s.holds(ctx) }}
	for before := -1; before != size(s.document) && s.tries < maxTries; {
		before = size(s.document)
		r.reduce(s.document, nil, func(v any) { s.document = v })
	}
}

// reduction makes a value smaller as long as the difference is there.
type reduction struct {
	// route are the places that stay as they are.
	route [][]string
	// holds reports whether the difference is there.
	holds func() bool
}

// reduce takes out of the value at a place of the document what makes no difference; put sets
// the value.
//
// That it stays without a part is not enough: without the path, a policy that forbids one path
// forbids as well, and the test would show nothing of what was found. A part makes no
// difference only if it could also be another one.
func (r reduction) reduce(value any, place []string, put func(any)) {
	whole, part := ofRoute(r.route, place)
	if whole {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			r.member(v, name, append(slices.Clip(place), name))
		}
	case []any:
		if !part {
			r.elements(v, place, put)
		}
	}
}

// member takes a member out of an object, or else what makes no difference of its value.
func (r reduction) member(of map[string]any, name string, place []string) {
	old := of[name]
	set := func(changed any) { of[name] = changed }
	if _, part := ofRoute(r.route, place); !part && indifferent(old, set, r.holds) {
		if delete(of, name); r.holds() {
			return
		}
	}
	of[name] = old
	r.reduce(old, place, set)
}

// elements takes elements off the end of an array, since rules name them by their place, and then
// what makes no difference of the others.
func (r reduction) elements(v []any, place []string, put func(any)) {
	for len(v) > 0 && indifferent(v[len(v)-1], func(changed any) { v[len(v)-1] = changed }, r.holds) {
		put(v[: len(v)-1 : len(v)-1])
		if !r.holds() {
			put(v)
			break
		}
		v = v[: len(v)-1 : len(v)-1]
	}
	for i := range v {
		r.reduce(v[i], place, func(changed any) { v[i] = changed })
	}
}

// indifferent reports whether the difference stays if a value is another one.
func indifferent(old any, put func(any), holds func() bool) bool {
	defer put(old)
	for _, other := range []json.Number{"0", "1000000007"} {
		put(another(old, other))
		if !holds() {
			return false
		}
	}
	return true
}

// another returns a value of the same form in which all texts, numbers and booleans are others.
func another(value any, number json.Number) any {
	return replaced(value, func(leaf any) any {
		switch v := leaf.(type) {
		case string:
			return word
		case json.Number:
			return number
		case bool:
			return !v
		}
		return leaf
	})
}

// replaced returns a copy of a value with the same objects and arrays, in which everything else
// is what other makes of it.
func replaced(value any, other func(leaf any) any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, element := range v {
			out[name] = replaced(element, other)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = replaced(element, other)
		}
		return out
	}
	return other(value)
}

// size is the number of values of a document.
func size(value any) int {
	n := 1
	switch v := value.(type) {
	case map[string]any:
		for _, element := range v {
			n += size(element)
		}
	case []any:
		for _, element := range v {
			n += size(element)
		}
	}
	return n
}
