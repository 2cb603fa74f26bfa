package sidecar

import (
	"slices"

	"understudy/authz"
)

// The number of a record grows with each change of its policy, in a store that lost its last
// writes too. So a record with a lower number than the one that was applied here is an older
// version: the store was restored from a copy, or a replica that lagged has become primary.
// Nobody decided that. The newer version decides on, with its experiments, and so does its
// deletion, until the record has a higher number: by `understudy restore --newer`, by
// `understudy restore --accept`, or by any other change of the policy. If what is compiled of both
// is equal there is nothing to keep.

// isNewer reports whether the snapshot has a newer version of a policy, of another content, than
// the store.
func (s *snapshot) isNewer(name authz.PolicyName, stored authz.PolicyState) bool {
	if stored.Sequence == 0 {
		return false
	}
	if d, deleted := s.deleted[name]; deleted {
		return d.sequence > stored.Sequence && !stored.Gone()
	}
	e := s.policies[name]
	return e != nil && e.sequence > stored.Sequence && !e.hasContent(stored)
}

// hasContent reports whether an entry decides by what is compiled of a stored policy. One that
// never compiled does so for no policy.
func (e *entry) hasContent(stored authz.PolicyState) bool {
	if stored.Policy == nil {
		return false
	}
	packed, err := authz.Pack(stored.Policy)
	return err == nil && e.live.Source.SameContent(packed)
}

// keepStale marks what the snapshot has of a policy, or its deletion, as newer than the store's.
func (s *snapshot) keepStale(name authz.PolicyName) {
	if d, deleted := s.deleted[name]; deleted {
		s.deleted[name] = deletion{d.sequence, true}
		return
	}
	kept := *s.policies[name]
	kept.missing, kept.stale = false, true
	s.policies[name] = &kept
}

// sequenceOf returns the number of the change by which a policy is decided, or by which it was deleted.
func (s *snapshot) sequenceOf(name authz.PolicyName) int64 {
	if d, deleted := s.deleted[name]; deleted {
		return d.sequence
	}
	if e := s.policies[name]; e != nil {
		return e.sequence
	}
	return 0
}

// stale returns the policies of which the store has an older version, in order.
func (s *snapshot) stale() []authz.PolicyName {
	var names []authz.PolicyName
	for name, e := range s.policies {
		if e.stale {
			names = append(names, name)
		}
	}
	for name, d := range s.deleted {
		if d.stale {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// StaleHelp says what to do about policies of which the store has an older version.
const StaleHelp = "`understudy restore --newer` stores the newer versions again from the snapshot file; " +
	"`understudy restore --accept` has the sidecars follow the store"
