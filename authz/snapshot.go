package authz

import (
	"context"

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
	broken      bool
	experiments []candidate
	// state is what the entry was compiled from.
	state PolicyState
}

// candidate is a compiled policy with the etag that records name it by: the live
// one, or that of an experiment.
type candidate struct {
	name   string
	etag   string
	policy *Policy
	// source is the message that was compiled.
	source *adminpb.Policy
}

// with returns a new snapshot in which the update's policies are replaced, and the
// refusals of those that do not compile. A live policy that does not compile keeps
// its last good version; an experiment that does not is left out.
func (s *snapshot) with(ctx context.Context, update Update) (*snapshot, map[PolicyName][]refusal) {
	next := &snapshot{cursor: update.Cursor, policies: make(map[PolicyName]*entry, len(s.policies))}
	for name, e := range s.policies {
		next.policies[name] = e
	}
	refusals := make(map[PolicyName][]refusal)
	for name, state := range update.Policies {
		if state.Policy == nil {
			delete(next.policies, name)
			continue
		}
		e, refused := compileEntry(ctx, name, state, s.policies[name])
		next.policies[name] = e
		if len(refused) > 0 {
			refusals[name] = refused
		}
	}
	return next, refusals
}

// refusal is a resource that this sidecar could not apply.
type refusal struct {
	resource string
	err      error
}

func compileEntry(ctx context.Context, name PolicyName, state PolicyState, old *entry) (*entry, []refusal) {
	if old == nil {
		old = &entry{broken: true}
	}
	e := &entry{name: name, state: state}
	var refusals []refusal
	live, err := compileCandidate(ctx, string(name), state.Policy.Etag, state.Policy, old.live)
	if err != nil {
		refusals = append(refusals, refusal{string(name), err})
		live, e.broken = old.live, old.broken
	}
	e.live = live
	for _, experiment := range state.Experiments {
		c, err := compileCandidate(ctx, experiment.Name, experiment.Etag, experiment.Policy, old.experiment(experiment.Name))
		if err != nil {
			refusals = append(refusals, refusal{experiment.Name, err})
			continue
		}
		e.experiments = append(e.experiments, c)
	}
	return e, refusals
}

func (e *entry) experiment(name string) candidate {
	for _, c := range e.experiments {
		if c.name == name {
			return c
		}
	}
	return candidate{}
}

// compileCandidate compiles a policy, unless the old candidate is the same content
// under the same etag.
func compileCandidate(
	ctx context.Context, name, etag string, source *adminpb.Policy, old candidate,
) (candidate, error) {
	c := candidate{name: name, etag: etag, source: source}
	if old.policy != nil && old.etag == etag && sameContent(old.source, source) {
		c.policy = old.policy
		return c, nil
	}
	policy, err := Compile(ctx, source)
	c.policy = policy
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
