package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
	"understudy/admin/content"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// storedAcceptances are the acceptances of an experiment as they were read. Their record has
// them as the answer to a list has them. Those that cannot be read count as none: then nothing
// is accepted, and the next one that is takes their place.
type storedAcceptances struct {
	key    Key
	record Record
	list   []*adminpb.Acceptance
	// callers :: name of an acceptance → its caller_sketch, which the list does not have: none gets
	// into an answer.
	callers map[string][]byte
	// damage is the caller's error of a record that cannot be read.
	damage error
}

// readAcceptances reads the acceptances of an experiment.
func (s *Server) readAcceptances(ctx context.Context, experiment Key) (storedAcceptances, error) {
	records, err := s.Get(ctx, acceptancesOf(experiment))
	if err != nil {
		return storedAcceptances{}, err
	}
	return s.asAcceptances(ctx, experiment, records[0]), nil
}

// asAcceptances is readAcceptances of a record that the caller has read together with others.
func (s *Server) asAcceptances(ctx context.Context, experiment Key, r Record) storedAcceptances {
	a := storedAcceptances{key: acceptancesOf(experiment), record: r}
	list := &adminpb.ListAcceptancesResponse{}
	err := r.Damage
	if err == nil {
		err = proto.Unmarshal(r.Value, list)
	}
	if err != nil {
		a.damage = s.damaged(ctx, experiment.In("acceptances").Key(Wildcard), err)
		return a
	}
	a.list, a.callers = list.Acceptances, make(map[string][]byte)
	for _, one := range a.list {
		a.callers[one.Name], one.CallerSketch = one.CallerSketch, nil
	}
	return a
}

// unchanged is the condition under which what was worked out from a still holds.
func (a storedAcceptances) unchanged() Condition { return UnchangedRecord(a.key, a.record) }

// find returns the acceptance with a name; nil if there is none.
func (a storedAcceptances) find(name Key) *adminpb.Acceptance {
	if i := slices.IndexFunc(a.list, func(one *adminpb.Acceptance) bool { return one.Name == string(name) }); i >= 0 {
		return a.list[i]
	}
	return nil
}

// knowing returns a with the stored set of the callers that an acceptance is made for.
func (a storedAcceptances) knowing(made *adminpb.Acceptance, callers []byte) storedAcceptances {
	a.callers = maps.Clone(a.callers)
	if a.callers == nil {
		a.callers = make(map[string][]byte) // of a record that cannot be read
	}
	a.callers[made.Name] = callers
	return a
}

// put is the write that stores acceptances in the place of a.
func (a storedAcceptances) put(list []*adminpb.Acceptance) (Write, error) {
	if len(list) == 0 {
		return Delete{a.key}, nil
	}
	kept := &adminpb.ListAcceptancesResponse{}
	for _, one := range list {
		one = proto.CloneOf(one)
		one.CallerSketch = a.callers[one.Name]
		kept.Acceptances = append(kept.Acceptances, one)
	}
	return NewPut(a.key, "", kept)
}

// with returns the acceptances of an experiment, with one more of its present content, which
// replaces those of the same group or item. If there are as many as there may be, those that were replaced
// and those of earlier contents go.
func (e storedExperiment) with(a *adminpb.Acceptance) ([]*adminpb.Acceptance, error) {
	list := slices.Clone(e.acceptances.list)
	for i, one := range list {
		if one.GetGroupId() == a.GetGroupId() && one.GetItemId() == a.GetItemId() && one.ExperimentEtag == a.ExperimentEtag {
			list[i] = proto.CloneOf(one)
			list[i].State = adminpb.Acceptance_REPLACED
		}
	}
	if len(list) >= report.MaxAcceptances {
		list = slices.DeleteFunc(list, func(one *adminpb.Acceptance) bool {
			return one.State == adminpb.Acceptance_REPLACED || one.ExperimentEtag != e.experiment.Etag
		})
	}
	if len(list) >= report.MaxAcceptances {
		return nil, acceptanceLimit(e.name)
	}
	return append(list, a), nil
}

// acceptedWrites are the writes that put a list in the place of the acceptances of an experiment.
func (e storedExperiment) acceptedWrites(before storedAcceptances, list []*adminpb.Acceptance) ([]Write, error) {
	write, err := before.put(list)
	if err != nil || e.experiment == nil { // of an experiment that cannot be read
		return []Write{write}, err
	}
	names, err := e.namesOf(list)
	if err != nil || names == nil {
		return []Write{write}, err
	}
	return []Write{write, names}, nil
}

// namesOf is the write that has sidecars count requests by the paths of the groups that were accepted, as a list says; nil
// if they do so already.
func (e storedExperiment) namesOf(list []*adminpb.Acceptance) (Write, error) {
	var paths []string
	for _, a := range list {
		if path := a.GetDifference().GetPath(); path != "" && a.ExperimentEtag == e.experiment.Etag && a.State != adminpb.Acceptance_REPLACED {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if slices.Equal(paths, e.experiment.AcceptedPaths) {
		return nil, nil
	}
	experiment := proto.CloneOf(e.experiment)
	experiment.AcceptedPaths = paths
	return NewPut(e.name, experiment.Etag, experiment)
}

// needsRules reports whether some acceptance holds only if the rules of the live policy are
// those that it was made for: the policy has changed since, and the experiment has not.
func (e storedExperiment) needsRules() bool {
	return slices.ContainsFunc(e.acceptances.list, func(a *adminpb.Acceptance) bool {
		return a.ExperimentEtag == e.experiment.Etag && a.PolicyEtag != e.parent.Policy.Etag
	})
}

// setAcceptances writes the acceptances of an experiment, which was read with its contents if it
// needs them, into its report, which was made of in.
func (e storedExperiment) setAcceptances(r *adminpb.Report, in report.Input, fourEyes bool) error {
	if len(e.acceptances.list) == 0 {
		return nil
	}
	now := report.AcceptanceContext{
		FourEyes: fourEyes, Editors: e.experiment.GetPolicyEditors(), Seen: report.SeenOf(in), Callers: e.acceptances.callers,
		Change: in.Change,
	}
	if e.needsRules() {
		var err error
		if now.RulesEtag, err = content.RulesEtag(e.parent.Policy); err != nil {
			return err
		}
	}
	report.SetAcceptances(r, e.acceptances.list, now)
	return nil
}

// acceptanceLimit is RESOURCE_EXHAUSTED of an experiment with all the acceptances it may have.
func acceptanceLimit(experiment Key) error {
	limit := strconv.Itoa(report.MaxAcceptances)
	return apierror.New(codes.ResourceExhausted, apierror.ReasonAcceptanceLimit,
		fmt.Sprintf("Experiment '%s' has %s acceptances, the most it may have. Delete one first, or change the experiment.", experiment, limit),
		apierror.Facts{"resource": string(experiment), "limit": limit},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: string(experiment), Description: "At most " + limit + " acceptances for an experiment.",
		}}})
}
