package admin

import (
	"context"
	"fmt"
	"slices"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/content"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// maxKeptReport bounds the report that a commit leaves behind, in bytes: its revision has to
// fit every client together with the largest policy.
const maxKeptReport = 48 << 10

// GetReport answers what the preview of an experiment has shown so far, judged by the
// requirements of its location and those of the call (AIP-156: every experiment has one). What
// they ask of the committer is judged as if the caller were to commit.
func (s *Server) GetReport(ctx context.Context, r *adminpb.GetReportRequest) (*adminpb.Report, error) {
	name, err := reportKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	if err := content.CheckRequirements("requirements", r.GetRequirements()); err != nil {
		return nil, err
	}
	stored, config, err := s.readReported(ctx, experimentOf(name))
	if err != nil {
		return nil, err
	}
	in, err := s.reportInput(ctx, stored)
	if err != nil {
		return nil, err
	}
	return s.judge(ctx, stored, in, config, r.GetRequirements())
}

// readReported reads what a report is made of, but for the evidence: an experiment that can be
// read, and the configuration of its location. The contents are read only where something accepted
// is held against them, or where it is not known in what these two versions differ.
func (s *Server) readReported(ctx context.Context, name Key) (storedExperiment, StoredConfig, error) {
	stored, guard, err := s.readGuarded(ctx, name, s.summarized)
	if err == nil && stored.readable() == nil {
		known := false
		stored.items = s.itemLists.find(stored.pair())
		stored.versionItems, known = s.knownVersions(stored)
		if stored.needsRules() || stored.items == nil || !known {
			stored, guard, err = s.readGuarded(ctx, name, s.Get)
		}
	}
	if err != nil {
		return stored, StoredConfig{}, err
	}
	if err := stored.readable(); err != nil {
		return stored, StoredConfig{}, err
	}
	config, err := s.AsConfig(ctx, configFor(name), guard)
	return stored, config, err
}

// summarized is Summaries for who looks at what contents leave.
func (s *Server) summarized(ctx context.Context, keys ...Key) ([]Record, error) {
	found, err := s.Summaries(ctx, keys...)
	records := make([]Record, len(found))
	for i, summary := range found {
		records[i] = Record(summary)
	}
	return records, err
}

// readGuarded reads an experiment, its policy, its acceptances and the record of the
// configuration of its location at one instant: what a commit depends on.
func (s *Server) readGuarded(
	ctx context.Context, name Key, read func(context.Context, ...Key) ([]Record, error),
) (storedExperiment, Record, error) {
	records, err := read(ctx, name, name.Policy(), configFor(name), acceptancesOf(name), baseOf(name))
	if err != nil {
		return storedExperiment{name: name}, Record{}, err
	}
	stored := s.asExperiment(ctx, name, records[0], records[1])
	stored.acceptances = s.asAcceptances(ctx, name, records[3])
	stored.base = s.asBase(ctx, name, records[4])
	return stored, records[2], nil
}

// configFor returns the name of the configuration of the location that a resource is in.
func configFor(name Key) Key { return ConfigOf(Key(name.Location())) }

// checkRequirements holds an experiment against what its location and the call require of
// a commit, and returns the report that it was judged by, as the operation and the revision
// keep it. If nothing is required, evidence that cannot be read fails no commit: the report is
// nil then.
//
// The report is about the policy and the experiment as they were read, and the commit depends
// on both. It does not depend on the evidence, which changes hundreds of times a second.
func (s *Server) checkRequirements(
	ctx context.Context, stored storedExperiment, config StoredConfig, call *adminpb.CommitRequirements,
) (*adminpb.Report, error) {
	in, err := s.reportInput(ctx, stored)
	if err != nil && !report.Demands(config.Requirements()) && !report.Demands(call) && ctx.Err() == nil {
		s.log.WarnContext(ctx, "a commit leaves no report behind", "experiment", string(stored.name), "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	judged, err := s.judge(ctx, stored, in, config, call)
	if err != nil {
		return nil, err
	}
	if unmet := report.Unmet(judged); len(unmet) > 0 {
		return nil, apierror.RequirementsNotMet(stored.name, unmet)
	}
	report.KeepUsed(judged)
	return report.Trim(judged, maxKeptReport), nil
}

// judge makes a report and holds it against what was accepted, and what the location and the call
// require of a commit by the caller.
func (s *Server) judge(
	ctx context.Context, stored storedExperiment, in report.Input, config StoredConfig, call *adminpb.CommitRequirements,
) (*adminpb.Report, error) {
	location := config.Requirements()
	fourEyes := location.GetRequireDifferentCommitter() || call.GetRequireDifferentCommitter()
	return s.judgeBy(ctx, stored, in, standard{location: location, call: call, fourEyes: fourEyes, by: committer(ctx, stored)})
}

// standard is what a report is held against.
type standard struct {
	// location and call are what each of them requires; nil if that is nothing.
	location, call *adminpb.CommitRequirements
	// fourEyes says that nobody who has set the policy may have accepted anything.
	fourEyes bool
	by       report.Committer
}

// judgeBy makes a report and holds it against what was accepted, and against a standard.
func (s *Server) judgeBy(ctx context.Context, stored storedExperiment, in report.Input, by standard) (_ *adminpb.Report, err error) {
	in.Change, err = s.itemsOf(ctx, stored)
	if err != nil && (report.DemandsItems(by.location) || report.DemandsItems(by.call)) {
		return nil, s.storeFailed(ctx, "comparing "+string(stored.name)+" with its policy", err)
	}
	if in.Base, err = s.takenBack(ctx, stored); err != nil && (report.Demands(by.location) || report.Demands(by.call)) {
		return nil, s.storeFailed(ctx, "comparing "+string(stored.name)+" with its base", err)
	}
	r := report.Build(in)
	if err := stored.setAcceptances(r, in, by.fourEyes); err != nil {
		return nil, err
	}
	report.FinishItems(r, in.Change)
	report.SetResults(r, by.location, by.call, by.by)
	return r, nil
}

// committer is who would commit an experiment, or does: the caller.
func committer(ctx context.Context, stored storedExperiment) report.Committer {
	return report.Committer{Member: access.FromContext(ctx).Member, Editors: stored.experiment.GetPolicyEditors()}
}

// reportInput reads what the report of an experiment is made of, which can be read as its policy
// can. The error of evidence that cannot be decoded is DATA_LOSS of the report.
func (s *Server) reportInput(ctx context.Context, stored storedExperiment) (report.Input, error) {
	name := reportOf(stored.name)
	kept, err := s.store.Evidence(ctx, stored.evidence())
	if err != nil {
		return report.Input{}, s.storeFailed(ctx, "reading the evidence of "+string(stored.name), err)
	}
	if err := kept.damage(); err != nil {
		return report.Input{}, s.damaged(ctx, name, err)
	}
	if len(kept.Compacted) == 0 && len(kept.Tallies) == 0 {
		if err := s.stillThere(ctx, stored); err != nil {
			return report.Input{}, err
		}
	}
	nodes, err := s.nodeReports(ctx, name.Location())
	if err != nil {
		return report.Input{}, err
	}
	published := make([]report.Published, len(kept.Tallies))
	for i, t := range kept.Tallies {
		published[i] = report.Published{Node: t.Node, Value: t.Value, Age: t.Age}
	}
	collected, err := report.Collect(report.Content{UID: stored.experiment.GetUid(), Etag: stored.experiment.Etag}, kept.Compacted, published)
	if err != nil {
		return report.Input{}, s.damaged(ctx, name, err)
	}
	return report.Input{
		Name: string(name), PolicyEtag: stored.parent.Policy.Etag, ExperimentEtag: stored.experiment.Etag,
		Expects:  stored.experiment.GetExpects(),
		Evidence: collected.Evidence, Nodes: collected.Nodes(liveNodes(nodes, stored.name.Policy())),
	}, nil
}

// stillThere returns NOT_FOUND if an experiment has ended since it was read. Its evidence ends
// with it, and a commit that lost the race must not be answered that nothing was compared. One
// of the same name that was created since is another one: in between there was none.
func (s *Server) stillThere(ctx context.Context, stored storedExperiment) error {
	found, err := s.Summaries(ctx, stored.name)
	if err != nil {
		return err
	}
	now, err := Decode(Record(found[0]), &adminpb.PolicyExperiment{})
	if found[0].Key == "" || err == nil && now.GetUid() != stored.experiment.GetUid() {
		return apierror.NotFound(stored.name)
	}
	return nil
}

// damage is the error of evidence of which the store cannot read a part: a sum without it
// would be too small, and could let pass what must not.
func (e Evidence) damage() error {
	if e.Damage != nil {
		return fmt.Errorf("reading the compacted evidence: %w", e.Damage)
	}
	if len(e.Damaged) > 0 {
		return fmt.Errorf("the store cannot read the tallies %q", e.Damaged)
	}
	return nil
}

// liveNodes returns the names of the live nodes that have a policy.
func liveNodes(nodes []NodeReport, policy Key) []string {
	var out []string
	for _, n := range nodes {
		if n.Alive() && slices.Contains(n.Node.GetPolicies(), string(policy)) {
			out = append(out, n.Node.GetName())
		}
	}
	return out
}

// evidence says whose evidence it is, of an experiment that can be read.
func (e storedExperiment) evidence() EvidenceName { return EvidenceName{e.name, e.experiment.GetUid()} }

// dropEvidence drops the evidence of experiments that are gone. What fails is left to the
// compactor, which drops what has no experiment.
func (s *Server) dropEvidence(ctx context.Context, of []EvidenceName) {
	for _, name := range of {
		if err := s.store.DropEvidence(ctx, name); err != nil {
			s.log.WarnContext(ctx, "the evidence of an experiment that is gone is dropped later", "experiment", name.Experiment, "error", err)
		}
	}
}
