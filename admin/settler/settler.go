package settler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

const (
	// every is the mean time between two sweeps.
	every = time.Minute
	// attempts is how often a settlement is worked out again in a sweep when the evidence
	// has changed meanwhile.
	attempts = 5
	// silence is the least age of a tally from which on it is over although its node lives:
	// the node's process before this one was killed. A tally that is alive after all is
	// refused once, and goes on as another one.
	silence = time.Minute
	// silentIntervals is the same, in intervals in which the tally was to be published.
	silentIntervals = 5
)

// Settler settles the evidence of a project.
type Settler struct {
	// Store has the evidence. Required.
	Store admin.Store
	// Project is the ID of the project. Required.
	Project string
	// Logger gets what fails. Required.
	Logger *slog.Logger

	// gone is the evidence without an experiment that the last sweep saw.
	gone map[admin.EvidenceName]bool
	// silent :: tally → serial, of those that the last sweep saw and took for over. Only the
	// next one settles them: when a store was away, all nodes have time to come back.
	silent map[string]int64
	// found is what is silent in this sweep.
	found map[string]int64
}

// Run sweeps until ctx is done: about every minute, for control planes that start together
// need not sweep together. It returns nil.
func (s *Settler) Run(ctx context.Context) error {
	for {
		timer := time.NewTimer(every/2 + rand.N(every))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("evidence is not settled; this is tried again", "project", s.Project, "error", err)
		}
	}
}

// Sweep settles what is over, of all experiments of the project, and drops what is of
// experiments that were gone at the last sweep already. It is not safe for concurrent use;
// several Settlers on one store are. The error joins those of single experiments.
func (s *Settler) Sweep(ctx context.Context) error {
	names, err := s.Store.EvidenceNames(ctx, s.Project)
	if err != nil {
		return err
	}
	gone, nodes := make(map[admin.EvidenceName]bool), make(liveNodes)
	s.found = make(map[string]int64)
	var errs []error
	for _, name := range names {
		there, err := s.settle(ctx, name, nodes)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name.Experiment, err))
			continue
		}
		if there {
			continue
		}
		// A store that has lost experiments gets them back (see admin/recovery).
		if gone[name] = true; s.gone[name] {
			errs = append(errs, s.Store.DropEvidence(ctx, name))
		}
	}
	s.gone, s.silent = gone, s.found
	return errors.Join(errs...)
}

// liveNodes :: location → names of the nodes that are alive, once they were read.
type liveNodes map[authz.Location]map[string]bool

// of returns the nodes of a location that are alive.
func (l liveNodes) of(ctx context.Context, store admin.Store, location authz.Location) (map[string]bool, error) {
	if known := l[location]; known != nil {
		return known, nil
	}
	reports, err := store.Nodes(ctx, location)
	if err != nil {
		return nil, err
	}
	l[location] = make(map[string]bool)
	for _, r := range reports {
		l[location][r.Node.GetName()] = r.Alive()
	}
	return l[location], nil
}

// settle settles the evidence of an experiment. It reports false if there is no such
// experiment.
func (s *Settler) settle(ctx context.Context, name admin.EvidenceName, nodes liveNodes) (there bool, err error) {
	for range attempts {
		if there, err = s.settleOnce(ctx, name, nodes); !errors.Is(err, admin.ErrChanged) {
			return there, err
		}
	}
	// Another one is at it, or the tallies are published all the time: the next sweep goes on.
	return true, nil
}

// settleOnce reads first what was published and then the experiment: so no evidence is of a
// later content than the one that is read.
func (s *Settler) settleOnce(ctx context.Context, name admin.EvidenceName, nodes liveNodes) (there bool, err error) {
	read, err := s.Store.Evidence(ctx, name, nil)
	if err != nil {
		return true, err
	}
	records, err := s.Store.Get(ctx, name.Experiment)
	if err != nil || records[0].Key == "" {
		return err != nil, err
	}
	experiment, err := admin.Decode(records[0], &adminpb.PolicyExperiment{})
	if err != nil {
		// What it is of cannot be known until the experiment is put again.
		return true, nil
	}
	if experiment.GetUid() != name.UID {
		return false, nil
	}
	alive, err := nodes.of(ctx, s.Store, authz.ResourceName(name.Experiment).Location())
	if err != nil {
		return true, err
	}
	settlement, err := s.workOut(name, experiment.GetEtag(), read, alive)
	if err != nil || len(settlement.Tallies) == 0 {
		return true, err
	}
	return true, s.Store.Settle(ctx, settlement)
}

// workOut works out a settlement, which is without tallies if none is over.
func (s *Settler) workOut(name admin.EvidenceName, etag string, read admin.Evidence, alive map[string]bool) (admin.Settlement, error) {
	out := admin.Settlement{EvidenceName: name, Version: read.Version}
	var over []*evidencepb.Evidence
	for _, t := range read.Tallies {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(t.Value, e); err != nil {
			s.Logger.Warn("what a node published of an experiment cannot be decoded, and is left out",
				"experiment", name.Experiment, "node", t.Node, "tally", t.Tally, "error", err)
			continue
		}
		if !e.GetFinal() && !s.staysSilent(t, e, alive) {
			continue
		}
		out.Tallies = append(out.Tallies, admin.TallyRecord{Node: t.Node, Tally: t.Tally, Serial: t.Serial})
		if e.GetExperimentEtag() == etag {
			over = append(over, e)
		}
	}
	if len(out.Tallies) == 0 {
		return out, nil
	}
	sum := s.settled(name, etag, read)
	evidence.Merge(sum, over...)
	// Points are minutes of nodes that run, and nothing is published of a sum.
	evidence.EndExamining(sum)
	sum.Points, sum.Final, sum.PublishInterval = nil, false, nil
	var err error
	out.Settled, err = proto.Marshal(sum)
	return out, err
}

// settled returns what was settled of a content of the experiment, to be added to.
func (s *Settler) settled(name admin.EvidenceName, etag string, read admin.Evidence) *evidencepb.Evidence {
	empty := &evidencepb.Evidence{Experiment: string(name.Experiment), Uid: name.UID, ExperimentEtag: etag}
	before, err := &evidencepb.Evidence{}, read.Damage
	if err == nil {
		err = proto.Unmarshal(read.Settled, before)
	}
	if err != nil {
		s.Logger.Error("what was settled of an experiment cannot be read, and is lost", "experiment", name.Experiment, "error", err)
		return empty
	}
	if before.GetExperimentEtag() != etag {
		return empty
	}
	return before
}

// staysSilent reports whether nothing more is to be expected of a tally, for nothing was
// published of it for long, and neither since the last sweep.
func (s *Settler) staysSilent(t admin.TallyRecord, e *evidencepb.Evidence, alive map[string]bool) bool {
	// A node that has just started may not have reported yet.
	least := authz.NodeLifetime
	if alive[t.Node] {
		least = max(silence, silentIntervals*e.GetPublishInterval().AsDuration())
	}
	if t.Age < least {
		return false
	}
	s.found[t.Tally] = t.Serial
	return s.silent[t.Tally] == t.Serial
}
