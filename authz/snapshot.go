package authz

import (
	"context"
	"maps"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// snapshot is all that a sidecar decides by, compiled. It is immutable: a change
// makes a new one, and a request that began with one ends with it.
type snapshot struct {
	cursor Cursor
	// policies :: policy name → what decides by it. A policy that is deleted, or
	// was never there, is absent.
	policies map[PolicyName]*entry
}

// entry is a live policy with its ACTIVE experiments.
type entry struct {
	name PolicyName
	live candidate
	// broken says that the policy never compiled here: it denies.
	broken bool
	// missing says that the store has lost the policy.
	missing     bool
	experiments []candidate
	// refused is what of the state could not be applied, with the change since which
	// that is so. It stays until a later change of the policy can be. It is part of
	// the snapshot so that no report has the change without its failure.
	refused  []refusal
	sequence int64
	// state is what the entry was compiled from.
	state PolicyState
	// lookups are those of the live policy, in all its versions since it was created.
	lookups *lookups
}

// refusal is a resource that this sidecar could not apply.
type refusal struct {
	resource string
	err      error
}

// candidate is a compiled policy with the etag that records name it by: the live
// one, or that of an experiment.
type candidate struct {
	name string
	etag string
	// policy is nil if it did not compile.
	policy *Policy
	// source is the message that was compiled.
	source *adminpb.Policy
	// comparisons are those of an experiment with the live policy of its entry.
	comparisons *comparisons
}

// with returns a new snapshot in which the update's policies are replaced. A live
// policy that does not compile keeps its last good version; an experiment that does
// not is left out.
func (s *snapshot) with(ctx context.Context, update Update) *snapshot {
	next := &snapshot{cursor: update.Cursor, policies: make(map[PolicyName]*entry, len(s.policies))}
	maps.Copy(next.policies, s.policies)
	for name, state := range update.Policies {
		if state.Policy == nil {
			delete(next.policies, name)
			continue
		}
		e := compileEntry(ctx, name, state, s.policies[name])
		e.sequence = update.Cursor.Sequence
		next.policies[name] = e
	}
	return next
}

// update returns what the snapshot was compiled from.
func (s *snapshot) update() Update {
	u := Update{Cursor: s.cursor, Policies: make(map[PolicyName]PolicyState, len(s.policies))}
	for name, e := range s.policies {
		u.Policies[name] = e.state
	}
	return u
}

func compileEntry(ctx context.Context, name PolicyName, state PolicyState, old *entry) *entry {
	if old == nil {
		old = &entry{broken: true, lookups: &lookups{}}
	}
	e := &entry{name: name, state: state, lookups: old.lookups}
	live, err := old.compile(ctx, string(name), state.Policy.Etag, state.Policy)
	if err != nil {
		e.refused = append(e.refused, refusal{string(name), err})
		e.broken = old.broken
	}
	if err == nil || e.broken {
		e.live = live
	} else {
		e.live = old.live
	}
	for _, experiment := range state.Experiments {
		c, err := old.compile(ctx, experiment.Name, experiment.Etag, experiment.Policy)
		if err != nil {
			e.refused = append(e.refused, refusal{experiment.Name, err})
			continue
		}
		c.comparisons = &comparisons{}
		e.experiments = append(e.experiments, c)
	}
	return e
}

// compile makes a candidate of a policy. What the entry has compiled already, under
// whichever name or etag, is not compiled again: a commit makes an experiment live.
func (e *entry) compile(ctx context.Context, name, etag string, source *adminpb.Policy) (candidate, error) {
	c := candidate{name: name, etag: etag, source: source}
	for _, known := range append([]candidate{e.live}, e.experiments...) {
		if known.policy != nil && sameContent(known.source, source) {
			c.policy = known.policy
			return c, nil
		}
	}
	var err error
	c.policy, err = Compile(ctx, source)
	return c, err
}

// sameContent reports whether two policies decide alike because all that is
// compiled of them is equal.
func sameContent(a, b *adminpb.Policy) bool {
	return proto.Equal(compiledPart(a), compiledPart(b))
}

func compiledPart(p *adminpb.Policy) *adminpb.Policy {
	return &adminpb.Policy{
		Rules: p.GetRules(), Modules: p.GetModules(), Data: p.GetData(), ExemptedProjects: p.GetExemptedProjects(),
	}
}
