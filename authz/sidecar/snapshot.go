package sidecar

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/cache"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/decisionrequest"
)

// snapshot is all that a sidecar decides by, compiled. It is immutable: a change
// makes a new one, and a request that began with one ends with it.
type snapshot struct {
	cursor authz.Cursor
	// policies :: policy name → what decides by it. A policy that is deleted, or
	// was never there, is absent.
	policies map[authz.PolicyName]*entry
	// deleted :: policy name → its deletion, as long as the store has a record of it.
	deleted map[authz.PolicyName]deletion
}

// deletion is a policy that the store has as deleted.
type deletion struct {
	// sequence is that of the record.
	sequence int64
	// stale says that the store has an older record in its place, of a policy that lives.
	stale bool
}

// entry is a live policy with its ACTIVE experiments.
type entry struct {
	name authz.PolicyName
	live decisionrequest.Live
	// broken says that the policy never compiled here: it denies.
	broken bool
	// sequence is that of the policy's record, also where that did not compile; 0 if it is not known.
	sequence int64
	// missing says that the store has lost the policy, and stale that it has an older record of it.
	missing, stale bool
	experiments    []*rehearsal.Experiment
	// pending are those of the experiments of which it is not known yet whether they compile.
	pending []pendingExperiment
	// failures lists resources of this entry that did not compile, or cannot be read. They
	// stay until a later change of the policy can be applied. They are part of the snapshot
	// so that no report has the change without its failure.
	failures []failure
	// previewed are the ACTIVE experiments as the store has them. Together with the source of
	// live they are what a sidecar that starts without the store decides by; without a source
	// the policy could never be read.
	previewed []*adminpb.PolicyExperiment
	// costs are those of the live policy, in all its versions since it was created.
	costs *costs
	// scheduler has the decisions of the policy take turns with those of others.
	scheduler *scheduler
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
// are compiled elsewhere, and nothing waits for that: see markCompiled.
func (s *Sidecar) with(ctx context.Context, on *snapshot, update authz.Update) *snapshot {
	next := &snapshot{cursor: update.Cursor, policies: make(map[authz.PolicyName]*entry, len(on.policies)), deleted: make(map[authz.PolicyName]deletion)}
	maps.Copy(next.policies, on.policies)
	maps.Copy(next.deleted, on.deleted)
	var changes []change
	for name, state := range update.Policies {
		switch {
		case on.isNewer(name, state):
			next.keepStale(name)
		case state.Gone():
			next.delete(name, state.Sequence)
		default:
			delete(next.deleted, name)
			c := s.newChange(name, state, on.policies[name], update.Cursor.Sequence)
			next.policies[name], changes = c.entry, append(changes, c)
		}
	}
	s.compile(ctx, changes)
	return next
}

// change is a policy that has changed.
type change struct {
	// entry is made of the state, on top of the one before.
	entry, old *entry
	state      authz.PolicyState
	sequence   int64
}

// compiledAtATime is how many policies are compiled at a time: each needs a processor, which traffic needs as well.
const compiledAtATime = 2

// compile compiles the live policies of some changes, and adds their experiments.
func (s *Sidecar) compile(ctx context.Context, changes []change) {
	var compiling errgroup.Group
	compiling.SetLimit(compiledAtATime)
	for _, c := range changes {
		compiling.Go(func() error {
			c.entry.compileLive(ctx, c.old, c.state.Policy, c.sequence)
			if live := c.entry.live.Policy; live != nil && live != c.old.live.Policy {
				live.Compiled().Pack(func() { s.unpacked(c.entry.name) })
			}
			return nil
		})
	}
	_ = compiling.Wait() // no function has an error: what does not compile is part of its entry
	for _, c := range changes {
		for _, experiment := range c.state.Experiments {
			s.addExperiment(c.entry, c.old, experiment, c.sequence)
		}
		c.entry.keepPaths()
	}
}

// delete removes a policy. sequence is that of its record, 0 if there is none.
func (s *snapshot) delete(name authz.PolicyName, sequence int64) {
	delete(s.policies, name)
	delete(s.deleted, name)
	if sequence > 0 {
		s.deleted[name] = deletion{sequence: sequence}
	}
}

// newChange makes the entry of a policy that is there, on top of the one before, which is nil if there was none. It
// has to be compiled. sequence is that of the change.
func (s *Sidecar) newChange(name authz.PolicyName, state authz.PolicyState, old *entry, sequence int64) change {
	if old == nil {
		old = &entry{broken: true, costs: &costs{}, scheduler: &scheduler{turns: s.turns, memory: s.memory}}
	}
	e := &entry{name: name, sequence: cmp.Or(state.Sequence, old.sequence), previewed: state.Experiments, costs: old.costs, scheduler: old.scheduler}
	for _, u := range state.Undecodable {
		e.failures = append(e.failures, failure{u.Resource, u.Sequence, fmt.Errorf("the stored record cannot be decoded: %w", u.Err)})
	}
	return change{e, old, state, sequence}
}

// compileLive sets what the entry decides by: its policy, or if that does not compile
// what decided before. One that cannot be read is nil: what was read last decides on.
func (e *entry) compileLive(ctx context.Context, old *entry, policy *adminpb.Policy, sequence int64) {
	if policy == nil && old.live.Source == nil {
		e.broken, e.live.Name = true, string(e.name)
		return
	}
	live, err := old.compile(ctx, string(e.name), policy)
	if err != nil {
		e.failures = append(e.failures, failure{string(e.name), sequence, err})
		e.broken = old.broken
	}
	if e.live = live; err != nil && !e.broken {
		e.live = old.live
	}
}

// compile compiles a live policy, or if that is nil the last one, in the background if it is large. What the
// entry has compiled already, under whichever etag, is not compiled again.
func (e *entry) compile(ctx context.Context, name string, source *adminpb.Policy) (v decisionrequest.Live, err error) {
	size := proto.Size(source)
	if source == nil {
		size = len(e.live.Source.Bytes())
	}
	background.Run(size, func() { v, err = e.compileHere(ctx, source) })
	v.Name = name
	return v, err
}

// compileHere is compile, in the goroutine of the caller.
func (e *entry) compileHere(ctx context.Context, source *adminpb.Policy) (v decisionrequest.Live, err error) {
	if source == nil {
		if source, err = e.live.Source.Policy(); err != nil {
			return v, err
		}
	}
	v.Etag = source.Etag
	if v.Source, err = authz.Pack(source); err != nil {
		return v, err
	}
	if v.Policy = e.compiled(v.Source); v.Policy != nil {
		return v, nil
	}
	compiled, err := authz.Compile(ctx, source)
	if err == nil {
		v.Policy = cache.NewPolicy(compiled)
	}
	return v, err
}

// compiled returns the live policy of a content; nil if it is not that of the entry.
func (e *entry) compiled(source *authz.Packed) *cache.Policy {
	if e.live.Policy != nil && e.live.Source.SameContent(source) {
		return e.live.Policy
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
		if e.live.Policy != nil && !e.live.Policy.Caching() { // it is used by nobody yet
			e.live.Policy.Contradicted = func(c *cache.Contradiction) { s.contradicted(e.live.Name, c) }
		}
		s.resizeCache(e.live.Policy, s.config.Cache)
	}
}

// unpacked reports that a decision by a policy was left to OPA for the first time.
func (s *Sidecar) unpacked(name authz.PolicyName) {
	s.metrics.unpacked.Add(context.Background(), 1)
	s.log.Info("a request was left to OPA's interpreter, which from now on keeps the policy in memory as well: understudy explain-cost may say why",
		"policy", string(name))
}

// contradicted reports that evaluations of a policy contradicted each other.
func (s *Sidecar) contradicted(policy string, c *cache.Contradiction) {
	s.metrics.contradictions.Add(context.Background(), 1)
	s.log.Error("evaluations of a policy contradict each other: its decisions are made by OPA alone until the next change of it. Report it as a fault of Understudy, with the policy",
		"policy", policy, "before", c.Before, "now", c.Now)
}

func (s *Sidecar) resizeCache(p *cache.Policy, size int) {
	if err := p.SetSize(size); err != nil {
		s.log.Error("decisions are not cached", "error", err)
	}
}
