package compactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

const (
	// every is the mean time between two sweeps.
	every = time.Minute
	// attempts is how often a compaction is worked out again in a sweep when the evidence
	// has changed meanwhile.
	attempts = 5
	// silence is the least age of a tally from which on it is over, if a later process of its node
	// has reported: the one that counted is gone.
	silence = time.Minute
	// kept is the age from which on any tally is over. A node that was cut off for half of that gives
	// it up, and publishes another one.
	kept = authz.TallyKept / 2
)

// Compactor compacts the evidence of a project.
type Compactor struct {
	// Store has the evidence. Required.
	Store admin.Store
	// Project is the ID of the project. Required.
	Project string
	// Logger gets what fails. Required.
	Logger *slog.Logger

	// gone is the evidence without an experiment that the last sweep saw.
	gone map[admin.EvidenceName]bool
}

// Run sweeps until ctx is done: about every minute, for control planes that start together
// need not sweep together. It returns nil.
func (s *Compactor) Run(ctx context.Context) error {
	for background.Sleep(ctx, every) {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("evidence is not compacted; this is tried again", "project", s.Project, "error", err)
		}
	}
	return nil
}

// Sweep compacts what is over, of all experiments of the project, and drops what is of
// experiments that were gone at the last sweep already. It is not safe for concurrent use;
// several Compactors on one store are. The error joins those of single experiments.
func (s *Compactor) Sweep(ctx context.Context) error {
	names, err := s.Store.EvidenceNames(ctx, s.Project)
	if err != nil {
		return err
	}
	gone, starts := make(map[admin.EvidenceName]bool), make(starts)
	var errs []error
	for _, name := range names {
		there, err := s.compact(ctx, name, starts)
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
	s.gone = gone
	return errors.Join(errs...)
}

// starts :: location → name of a node → when the process started that reported last, once it was
// read.
type starts map[authz.Location]map[string]time.Time

// of returns those of the nodes of a location.
func (s starts) of(ctx context.Context, store admin.Store, location authz.Location) (map[string]time.Time, error) {
	if known := s[location]; known != nil {
		return known, nil
	}
	reports, err := store.Nodes(ctx, location)
	if err != nil {
		return nil, err
	}
	s[location] = make(map[string]time.Time)
	for _, r := range reports {
		s[location][r.Node.GetName()] = r.Node.GetCreateTime().AsTime()
	}
	return s[location], nil
}

// compact compacts the evidence of an experiment. It reports false if there is no such
// experiment.
func (s *Compactor) compact(ctx context.Context, name admin.EvidenceName, starts starts) (there bool, err error) {
	for range attempts {
		if there, err = s.compactOnce(ctx, name, starts); !errors.Is(err, admin.ErrChanged) {
			return there, err
		}
	}
	// Another one is at it, or the tallies are published all the time: the next sweep goes on.
	return true, nil
}

// compactOnce reads first what was published and then the experiment: so no evidence is of a
// later content than the one that is read.
func (s *Compactor) compactOnce(ctx context.Context, name admin.EvidenceName, starts starts) (there bool, err error) {
	read, err := s.Store.Evidence(ctx, name)
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
	started, err := starts.of(ctx, s.Store, authz.ResourceName(name.Experiment).Location())
	if err != nil {
		return true, err
	}
	compaction, err := s.workOut(name, experiment.GetEtag(), read, started)
	if err != nil || len(compaction.Tallies) == 0 {
		return true, err
	}
	return true, s.Store.Compact(ctx, compaction)
}

// workOut works out a compaction, which is without tallies if none is over.
func (s *Compactor) workOut(name admin.EvidenceName, etag string, read admin.Evidence, started map[string]time.Time) (admin.Compaction, error) {
	out := admin.Compaction{EvidenceName: name, Version: read.Version}
	var over []*evidencepb.Evidence
	for _, t := range read.Tallies {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(t.Value, e); err != nil {
			s.Logger.Warn("what a node published of an experiment cannot be decoded, and is left out",
				"experiment", name.Experiment, "node", t.Node, "tally", t.Tally, "error", err)
			continue
		}
		if !isOver(t, e, started[t.Node]) {
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
	sum := s.compacted(name, etag, read)
	for _, e := range over {
		sum.Add(e)
	}
	sum.EndExaminations()
	all := sum.Evidence()
	// Points are minutes of nodes that run, and nothing is published of a sum.
	all.Points, all.PublishInterval = nil, nil
	var err error
	out.Compacted, err = proto.Marshal(all)
	return out, err
}

// compacted returns what was compacted of a content of the experiment, to be added to.
func (s *Compactor) compacted(name admin.EvidenceName, etag string, read admin.Evidence) *evidence.Sum {
	sum, before, err := evidence.NewSum(evidence.Content{Experiment: string(name.Experiment), UID: name.UID, Etag: etag}, nil), &evidencepb.Evidence{}, read.Damage
	if err == nil {
		err = proto.Unmarshal(read.Compacted, before)
	}
	if err != nil {
		s.Logger.Error("what was compacted of an experiment cannot be read, and is lost", "experiment", name.Experiment, "error", err)
		return sum
	}
	sum.Add(before)
	return sum
}

// isOver reports whether nothing more is to be expected of a tally: it says so, or a process of its node
// that started later has reported since, or nothing was published of it for long.
func isOver(t admin.TallyRecord, e *evidencepb.Evidence, started time.Time) bool {
	later := e.GetStartTime() != nil && started.After(e.GetStartTime().AsTime())
	return e.GetFinal() || later && t.Age >= silence || t.Age >= kept
}
