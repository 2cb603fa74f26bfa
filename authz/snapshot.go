package authz

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz/background"
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
	// refused is what of the state could not be applied. It stays until a later change
	// of the policy can be. It is part of the snapshot so that no report has the change
	// without its failure.
	refused []refusal
	// state is what a sidecar that starts without the store decides by: the policy that
	// decides now and the experiments, or that the policy could never be read.
	state PolicyState
	// lookups are those of the live policy, in all its versions since it was created.
	lookups *lookups
}

// refusal is a resource that this sidecar could not apply.
type refusal struct {
	resource string
	// sequence is the change since which that is so. For what cannot be decoded it is
	// the one that wrote the record, so that later changes of its policy do not fail by
	// it.
	sequence int64
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
// policy that cannot be decoded or compiled keeps its last good version; an experiment
// that cannot is left out.
func (s *snapshot) with(ctx context.Context, update Update) *snapshot {
	next := &snapshot{cursor: update.Cursor, policies: make(map[PolicyName]*entry, len(s.policies))}
	maps.Copy(next.policies, s.policies)
	for name, state := range update.Policies {
		if state.Gone() {
			delete(next.policies, name)
			continue
		}
		next.policies[name] = compileEntry(ctx, name, state, s.policies[name], update.Cursor.Sequence)
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

// compileEntry makes the entry of a policy that is there, on top of the one before, which
// is nil if there was none. sequence is that of the change.
func compileEntry(ctx context.Context, name PolicyName, state PolicyState, old *entry, sequence int64) *entry {
	if old == nil {
		old = &entry{broken: true, lookups: &lookups{}}
	}
	e := &entry{name: name, state: state, lookups: old.lookups}
	for _, u := range state.Undecodable {
		e.refused = append(e.refused, refusal{u.Resource, u.Sequence, fmt.Errorf("the stored record cannot be decoded: %w", u.Err)})
	}
	if state.Policy == nil {
		// What was read last decides on.
		e.state.Policy = old.state.Policy
	}
	e.compileLive(ctx, old, sequence)
	for _, experiment := range state.Experiments {
		c, err := old.compile(ctx, experiment.Name, experiment.Etag, experiment.Policy)
		if err != nil {
			e.refused = append(e.refused, refusal{experiment.Name, sequence, err})
			continue
		}
		c.comparisons = &comparisons{}
		e.experiments = append(e.experiments, c)
	}
	return e
}

// compileLive sets what the entry decides by: its policy, or if that does not compile
// what decided before.
func (e *entry) compileLive(ctx context.Context, old *entry, sequence int64) {
	if e.state.Policy == nil {
		e.broken, e.live.name = true, string(e.name)
		return
	}
	e.state.Undecodable = nil
	live, err := old.compile(ctx, string(e.name), e.state.Policy.Etag, e.state.Policy)
	if err != nil {
		e.refused = append(e.refused, refusal{string(e.name), sequence, err})
		e.broken = old.broken
	}
	if err == nil || e.broken {
		e.live = live
	} else {
		e.live, e.state.Policy = old.live, old.state.Policy
	}
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
	background.Run(proto.Size(source), func() { c.policy, err = Compile(ctx, source) })
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
