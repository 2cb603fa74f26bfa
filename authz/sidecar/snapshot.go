package sidecar

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/cache"
	"understudy/authz/rehearsal"
)

// snapshot is all that a sidecar decides by, compiled. It is immutable: a change
// makes a new one, and a request that began with one ends with it.
type snapshot struct {
	cursor authz.Cursor
	// policies :: policy name → what decides by it. A policy that is deleted, or
	// was never there, is absent.
	policies map[authz.PolicyName]*entry
}

// entry is a live policy with its ACTIVE experiments.
type entry struct {
	name authz.PolicyName
	live rehearsal.Version
	// broken says that the policy never compiled here: it denies.
	broken bool
	// missing says that the store has lost the policy.
	missing     bool
	experiments []*rehearsal.Experiment
	// pending are those of the experiments of which it is not known yet whether they compile.
	pending []pending
	// failures lists resources of this entry that did not compile, or cannot be read. They
	// stay until a later change of the policy can be applied. They are part of the snapshot
	// so that no report has the change without its failure.
	failures []failure
	// state is what a sidecar that starts without the store decides by: the policy that
	// decides now and the experiments, or that the policy could never be read.
	state authz.PolicyState
	// costs are those of the live policy, in all its versions since it was created.
	costs *costs
}

// failure is a resource that this sidecar could not apply.
type failure struct {
	resource string
	// sequence is the change that introduced it. For what cannot be decoded it is the one
	// that wrote the record, so that later changes of its policy do not fail by it.
	sequence int64
	err      error
}

// with returns a snapshot on top of another, in which the update's policies are replaced. A
// live policy that cannot be decoded or compiled keeps its last good version. Experiments
// are compiled elsewhere, and nothing waits for that: see settle.
func (s *Sidecar) with(ctx context.Context, on *snapshot, update authz.Update) *snapshot {
	next := &snapshot{cursor: update.Cursor, policies: make(map[authz.PolicyName]*entry, len(on.policies))}
	maps.Copy(next.policies, on.policies)
	for name, state := range update.Policies {
		if state.Gone() {
			delete(next.policies, name)
			continue
		}
		next.policies[name] = s.newEntry(ctx, name, state, on.policies[name], update.Cursor.Sequence)
	}
	return next
}

// update returns what the snapshot was compiled from.
func (s *snapshot) update() authz.Update {
	u := authz.Update{Cursor: s.cursor, Policies: make(map[authz.PolicyName]authz.PolicyState, len(s.policies))}
	for name, e := range s.policies {
		u.Policies[name] = e.state
	}
	return u
}

// newEntry makes the entry of a policy that is there, on top of the one before, which
// is nil if there was none. sequence is that of the change.
func (s *Sidecar) newEntry(ctx context.Context, name authz.PolicyName, state authz.PolicyState, old *entry, sequence int64) *entry {
	if old == nil {
		old = &entry{broken: true, costs: &costs{}}
	}
	e := &entry{name: name, state: state, costs: old.costs}
	for _, u := range state.Undecodable {
		e.failures = append(e.failures, failure{u.Resource, u.Sequence, fmt.Errorf("the stored record cannot be decoded: %w", u.Err)})
	}
	if state.Policy == nil {
		// What was read last decides on.
		e.state.Policy = old.state.Policy
	}
	e.compileLive(ctx, old, sequence)
	for _, experiment := range state.Experiments {
		s.addExperiment(e, old, experiment, sequence)
	}
	return e
}

// compileLive sets what the entry decides by: its policy, or if that does not compile
// what decided before.
func (e *entry) compileLive(ctx context.Context, old *entry, sequence int64) {
	if e.state.Policy == nil {
		e.broken, e.live.Name = true, string(e.name)
		return
	}
	e.state.Undecodable = nil
	live, err := old.compile(ctx, string(e.name), e.state.Policy.Etag, e.state.Policy)
	if err != nil {
		e.failures = append(e.failures, failure{string(e.name), sequence, err})
		e.broken = old.broken
	}
	if err == nil || e.broken {
		e.live = live
	} else {
		e.live, e.state.Policy = old.live, old.state.Policy
	}
}

// compile compiles a live policy. What the entry has compiled already, under whichever etag,
// is not compiled again. An experiment that is committed brings its cache along: its
// decisions are those of the same content.
func (e *entry) compile(ctx context.Context, name, etag string, source *adminpb.Policy) (rehearsal.Version, error) {
	v := rehearsal.Version{Name: name, Etag: etag, Source: source}
	if v.Policy = e.compiled(source); v.Policy != nil {
		return v, nil
	}
	var (
		compiled *authz.Policy
		err      error
	)
	background.Run(proto.Size(source), func() { compiled, err = authz.Compile(ctx, source) })
	if err == nil {
		v.Policy = cache.NewPolicy(compiled)
		v.Policy.Adopt(e.rehearsed(source))
	}
	return v, err
}

// compiled returns the live policy of a content; nil if it is not that of the entry.
func (e *entry) compiled(source *adminpb.Policy) *cache.Policy {
	if e.live.Policy != nil && sameContent(e.live.Source, source) {
		return e.live.Policy
	}
	return nil
}

// rehearsed returns the decisions that are cached of an experiment of a content; nil if
// there are none.
func (e *entry) rehearsed(source *adminpb.Policy) *cache.Cache {
	for _, experiment := range e.experiments {
		if sameContent(experiment.Source, source) {
			return experiment.Candidate.Cache()
		}
	}
	return nil
}

// sameContent reports whether two policies decide alike because all that is
// compiled of them is equal.
func sameContent(a, b *adminpb.Policy) bool {
	return proto.Equal(authz.CompiledPart(a), authz.CompiledPart(b))
}

// resizeCaches gives each live policy of a snapshot its part of the decision cache.
func (s *Sidecar) resizeCaches(next *snapshot) {
	if s.config.Cache < 0 {
		return
	}
	for _, e := range next.policies {
		s.resizeCache(e.live.Policy, s.config.Cache)
	}
}

func (s *Sidecar) resizeCache(p *cache.Policy, size int) {
	if err := p.SetSize(size); err != nil {
		s.log.Error("decisions are not cached", "error", err)
	}
}
