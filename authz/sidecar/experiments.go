package sidecar

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	"understudy/authz/rehearsal"
)

// pendingTime bounds how long a change is not reported as applied because an experiment of
// it is being compiled.
const pendingTime = 15 * time.Second

// previews are what experiments are previewed with, off the request path.
type previews struct {
	shadow *rehearsal.Shadow
	// candidates are those of experiments, and compiling waits until they have compiled.
	candidates candidates
	compiling  sync.WaitGroup
	// ledger has what is counted of experiments.
	ledger *evidence.Ledger
}

// pendingExperiment is an experiment that is being compiled.
type pendingExperiment struct {
	experiment *rehearsal.Experiment
	// sequence is the change that brought it, and since when that came here.
	sequence int64
	since    time.Time
}

// candidates are those that the sidecar has begun and not closed. They are safe for
// concurrent use.
type candidates struct {
	mu  sync.Mutex
	all map[*rehearsal.Candidate]bool
}

func (c *candidates) add(one *rehearsal.Candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*rehearsal.Candidate]bool)
	}
	c.all[one] = true
}

// close closes one.
func (c *candidates) close(one *rehearsal.Candidate) {
	c.mu.Lock()
	delete(c.all, one)
	c.mu.Unlock()
	one.Close()
}

// closeExcept closes those that a snapshot does not have; all if it is nil.
func (c *candidates) closeExcept(snap *snapshot) {
	c.mu.Lock()
	gone := maps.Clone(c.all)
	if snap != nil {
		for _, e := range snap.policies {
			for _, experiment := range e.experiments {
				delete(gone, experiment.Candidate)
			}
		}
	}
	for one := range gone {
		delete(c.all, one)
	}
	c.mu.Unlock()
	for one := range gone {
		one.Close()
	}
}

// addExperiment adds an experiment to an entry. One that was there before, and was not
// started again since, stays what it is if its content does; if nothing else of the pair has changed either,
// with all that is known of it.
func (s *Sidecar) addExperiment(e, old *entry, experiment *adminpb.PolicyExperiment, sequence int64) {
	name := experiment.Name
	if i := slices.IndexFunc(old.experiments, func(before *rehearsal.Experiment) bool {
		return before.Name == name && sameContent(before.Candidate.Source(), experiment.Policy) && proto.Equal(old.started(name), e.started(name))
	}); i >= 0 {
		next := old.experiments[i]
		if tally := s.tally(experiment, next); tally != next.Evidence || e.live.Etag != old.live.Etag || e.live.Policy != old.live.Policy {
			next = rehearsal.NewExperiment(next.Candidate, experiment.Etag)
			next.Evidence = tally
		}
		e.experiments = append(e.experiments, next)
		for _, p := range old.pending {
			if p.experiment == old.experiments[i] {
				e.pending = append(e.pending, pendingExperiment{next, p.sequence, p.since})
			}
		}
		return
	}
	c := s.shadow.NewCandidate(name, experiment.Policy)
	s.candidates.add(c)
	next := rehearsal.NewExperiment(c, experiment.Etag)
	next.Evidence = s.tally(experiment, nil)
	e.experiments = append(e.experiments, next)
	e.pending = append(e.pending, pendingExperiment{next, sequence, time.Now()})
}

// tally returns what counts the comparisons with an experiment: that of the one before, if that
// is of the same content.
func (s *Sidecar) tally(experiment *adminpb.PolicyExperiment, before *rehearsal.Experiment) *evidence.Tally {
	of := evidence.Content{Experiment: experiment.Name, UID: experiment.Uid, Etag: experiment.Etag}
	if before != nil && before.Evidence.Content() == of {
		return before.Evidence
	}
	return s.ledger.Tally(of, evidence.NewExpectations(experiment.Expects))
}

// keepPaths has the paths of accepted groups keep their names.
func (e *entry) keepPaths() {
	var all []string
	for _, x := range e.experiments {
		paths := e.experiment(x.Name).GetAcceptedPaths()
		x.Evidence.Keep(paths)
		all = append(all, paths...)
	}
	if len(e.experiments) > 0 {
		e.experiments[0].Evidence.Patterns().Keep(all) // which all experiments of the policy share
	}
}

// active returns the experiments of a snapshot that are compared: those that have compiled.
func (s *snapshot) active() []evidence.Active {
	var out []evidence.Active
	for _, e := range s.policies {
		for _, x := range e.experiments {
			if !e.isPending(x) {
				out = append(out, x.Active(e.live.Etag))
			}
		}
	}
	return out
}

// isPending reports whether it is not known yet if an experiment compiles.
func (e *entry) isPending(x *rehearsal.Experiment) bool {
	return slices.ContainsFunc(e.pending, func(p pendingExperiment) bool { return p.experiment == x })
}

// countActive says from when on the experiments of the present snapshot are compared.
func (s *Sidecar) countActive() {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.ledger.Follow(s.current.Load().active())
}

// started returns since when an experiment of the entry is previewed.
func (e *entry) started(name string) proto.Message {
	if experiment := e.experiment(name); experiment != nil {
		return experiment.GetPreviewMetadata().GetStartTime()
	}
	return nil
}

// experiment returns the experiment of a resource name as the store has it; nil if there is
// none.
func (e *entry) experiment(name string) *adminpb.PolicyExperiment {
	for _, experiment := range e.previewed {
		if experiment.Name == name {
			return experiment
		}
	}
	return nil
}

// markWhenCompiled makes a new snapshot as soon as it is known whether the experiments of one
// that are pending compile.
func (s *Sidecar) markWhenCompiled(snap *snapshot) {
	for _, e := range snap.policies {
		for _, p := range e.pending {
			s.compiling.Go(func() {
				<-p.experiment.Candidate.Ready()
				s.markCompiled(p.experiment.Candidate)
			})
		}
	}
}

// markCompiled notes in the present snapshot that a candidate has compiled, or that it has not:
// then the experiment is left out.
func (s *Sidecar) markCompiled(c *rehearsal.Candidate) {
	s.applying.Lock()
	defer s.applying.Unlock()
	snap := s.current.Load()
	for name, e := range snap.policies {
		i := slices.IndexFunc(e.pending, func(p pendingExperiment) bool { return p.experiment.Candidate == c })
		if i < 0 {
			continue
		}
		next := *snap
		next.policies = maps.Clone(snap.policies)
		updated := *e
		next.policies[name] = &updated
		p := e.pending[i]
		updated.pending = slices.Delete(slices.Clone(e.pending), i, i+1)
		if err := c.Err(); err != nil {
			f := failure{p.experiment.Name, p.sequence, err}
			updated.failures = append(slices.Clone(e.failures), f)
			updated.experiments = slices.DeleteFunc(slices.Clone(e.experiments), func(x *rehearsal.Experiment) bool { return x == p.experiment })
			s.logFailure(f)
		}
		s.current.Store(&next)
		s.ledger.Follow(next.active())
		if c.Err() != nil {
			// That one alone: the candidates of a snapshot that is being made are in none yet.
			s.candidates.close(c)
		}
		s.askForHeartbeat()
		return
	}
}

// applied returns the sequence number of the last change that a snapshot has with all of its
// experiments.
func (s *snapshot) applied() int64 {
	sequence := s.cursor.Sequence
	for _, e := range s.policies {
		for _, p := range e.pending {
			if time.Since(p.since) < pendingTime {
				sequence = min(sequence, p.sequence-1)
			}
		}
	}
	return max(sequence, 0)
}

// logFailure logs and counts a resource that could not be applied.
func (s *Sidecar) logFailure(f failure) {
	s.metrics.notApplied()
	s.panics.ReportCompiler(context.Background(), f.err, slog.String("resource", f.resource))
	s.log.Error("a policy could not be applied; the last good one stays",
		"resource", f.resource, "sequence", f.sequence, "error", f.err)
}
