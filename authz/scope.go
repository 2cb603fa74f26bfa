package authz

import (
	"slices"
	"strings"
)

// Scope is what a sidecar follows: the policies of a location, or some of them.
type Scope struct {
	Location Location
	Policies Selection
}

// Has reports whether a policy of the location is followed.
func (s Scope) Has(name PolicyName) bool { return s.Policies.Has(name.ID()) }

// Selection names policies by their IDs. An element that ends with * is each policy whose ID
// begins so; the other ones are IDs. Without elements it is all policies.
type Selection []string

// anyEnd ends an element for the beginning of an ID. No ID has it.
const anyEnd = "*"

// Has reports whether a policy is one of the selection.
func (s Selection) Has(id PolicyID) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(element string) bool {
		beginning, is := strings.CutSuffix(element, anyEnd)
		return is && strings.HasPrefix(string(id), beginning) || string(id) == element
	})
}

// Covers reports whether a selection has every policy that another one has.
func (s Selection) Covers(other Selection) bool {
	if len(s) == 0 || len(other) == 0 {
		return len(s) == 0
	}
	return !slices.ContainsFunc(other, func(element string) bool {
		beginning, is := strings.CutSuffix(element, anyEnd)
		if !is {
			return !s.Has(PolicyID(element))
		}
		return !slices.ContainsFunc(s, func(own string) bool {
			shorter, is := strings.CutSuffix(own, anyEnd)
			return is && strings.HasPrefix(beginning, shorter)
		})
	})
}

// Parts returns the IDs of a selection, and the beginnings of IDs. That of all policies is
// the empty beginning.
func (s Selection) Parts() (ids []PolicyID, beginnings []string) {
	if len(s) == 0 {
		return nil, []string{""}
	}
	for _, element := range s {
		if beginning, is := strings.CutSuffix(element, anyEnd); is {
			beginnings = append(beginnings, beginning)
		} else {
			ids = append(ids, PolicyID(element))
		}
	}
	return ids, beginnings
}
