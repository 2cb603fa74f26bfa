package admin

import (
	"context"

	"google.golang.org/protobuf/proto"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz/background"
	"understudy/rego/change"
)

// The base of an experiment is the live policy that its content was made from. It is a copy in a record of its own,
// since revisions are trimmed, and stays as it is until somebody names another revision. What the live policy has
// changed since then, and the experiment does not have, is what its commit would take back.

// bases is the collection in which the bases of a policy's experiments are kept.
func (k Key) bases() Collection { return k.In("bases") }

// baseOf returns the key of the base of an experiment.
func baseOf(experiment Key) Key { return experiment.Policy().bases().Key(experiment.ID()) }

// experimentDeletions are the writes that delete an experiment with what belongs to it.
func experimentDeletions(name Key) []Write {
	return []Write{Delete{name}, Delete{acceptancesOf(name)}, Delete{baseOf(name)}}
}

// experimentsDeletions are those for all experiments of a policy.
func experimentsDeletions(policy Key) []Write {
	return []Write{DeleteCollection{policy.In("experiments")}, DeleteCollection{policy.acceptances()}, DeleteCollection{policy.bases()}}
}

// asBase returns the base of an experiment; nil if there is none, or if it cannot be read.
func (s *Server) asBase(ctx context.Context, experiment Key, r Record) *adminpb.Policy {
	if r.Key == "" {
		return nil
	}
	base := &adminpb.Policy{}
	err := r.Damage
	if err == nil {
		background.Run(len(r.Value), func() { err = proto.Unmarshal(r.Value, base) })
	}
	if err != nil {
		s.log.ErrorContext(ctx, "the base of an experiment cannot be read, so its commit counts as taking back a change; name its base again",
			"experiment", string(experiment), "error", err)
		return nil
	}
	return base
}

// readBase is asBase of the record that the store has.
func (s *Server) readBase(ctx context.Context, experiment Key) (*adminpb.Policy, error) {
	records, err := s.Get(ctx, baseOf(experiment))
	if err != nil {
		return nil, err
	}
	return s.asBase(ctx, experiment, records[0]), nil
}

// setBase gives an experiment the base that it names, or the live policy if it names none, and returns the write of
// that.
func (s *Server) setBase(ctx context.Context, experiment *adminpb.PolicyExperiment, live *adminpb.Policy) (Put, error) {
	base := live
	if named := experiment.BaseRevision; named != "" && named != live.Revision {
		var err error
		if base, err = s.revisionAsBase(ctx, Key(live.Name), named); err != nil {
			return Put{}, err
		}
	}
	experiment.BaseRevision = base.Revision
	return NewPut(baseOf(Key(experiment.Name)), base.Etag, base)
}

// isRebased reports whether an update names a base: another one, or, not among all fields, the one that there is, whose
// content is stored again.
func (e storedExperiment) isRebased(given *adminpb.PolicyExperiment, mask aip.Mask) bool {
	named := given.GetBaseRevision()
	return named != "" && mask.Has("base_revision") && (named != e.experiment.BaseRevision || !mask.All())
}

// rebase adds to the replacement of an experiment the write of the base that it names now.
func (s *Server) rebase(ctx context.Context, c *Change, stored storedExperiment, experiment *adminpb.PolicyExperiment) error {
	if err := stored.parent.Damage; err != nil {
		return err
	}
	base, err := s.setBase(ctx, experiment, stored.parent.Policy)
	c.Writes = append(c.Writes, base)
	// Which revision is live is what was read.
	c.Conditions = append(c.Conditions, stored.parent.Unchanged())
	return err
}

// revisionAsBase returns the content of a revision of a policy.
func (s *Server) revisionAsBase(ctx context.Context, policy Key, named string) (*adminpb.Policy, error) {
	const field = "policy_experiment.base_revision"
	name, err := revisionKind.parse(field, named)
	if err != nil {
		return nil, err
	}
	if name.Policy() != policy {
		return nil, apierror.Invalid(apierror.ReasonPolicyNameMismatch, field, "It has to be a revision of the live policy, "+string(policy)+".")
	}
	revision, err := s.storedRevision(ctx, name)
	if err != nil {
		return nil, err
	}
	if revision == nil {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, field,
			"There is no such revision, or none that can be read. List the revisions of the policy; the last 100 are kept.")
	}
	base := proto.CloneOf(revision.GetSnapshot())
	base.Revision = revision.Name
	return base, nil
}

// comparable reports whether the live policy is another one than the base, whose content is there.
func (e storedExperiment) comparable() bool { return e.base != nil && e.movedOn() }

// movedOn reports whether the live policy may be another one than the base that the experiment names.
func (e storedExperiment) movedOn() bool {
	if e.base == nil {
		return e.experiment.GetBaseRevision() != e.parent.Policy.GetRevision()
	}
	return e.base.Etag != e.parent.Policy.GetEtag()
}

// versionPair are two versions of a policy of which the second is compared with the first.
type versionPair struct {
	pair     pair
	from, to *adminpb.Policy
}

// versions are the pairs of the three versions: base and live policy, base and experiment, experiment and live policy.
func (e storedExperiment) versions() [3]versionPair {
	live, own := e.parent.Policy, e.experiment
	return [3]versionPair{
		{pair{e.base.Etag, live.Etag, true}, e.base, live}, {pair{e.base.Etag, own.Etag, true}, e.base, own.Policy},
		{pair{own.Etag, live.Etag, true}, own.Policy, live},
	}
}

// knownVersions returns in what the three versions differ, as far as that is kept. It reports false if one of the
// pairs has to be compared.
func (s *Server) knownVersions(of storedExperiment) (lists [3]*itemList, all bool) {
	if !of.comparable() {
		return lists, true
	}
	for i, p := range of.versions() {
		lists[i] = s.itemLists.find(p.pair)
		if lists[i] == nil {
			return lists, false
		}
		if i == 0 && lists[0].list.None() {
			break
		}
	}
	return lists, true
}

// takenBack returns what a commit of an experiment takes back. A base whose content is lost may have lacked anything
// that the live policy has. The error is that of ctx, or wraps ErrNoCompiler.
func (s *Server) takenBack(ctx context.Context, of storedExperiment) (report.Base, error) {
	out := report.Base{Revision: of.experiment.GetBaseRevision()}
	if out.Revision == "" && of.base == nil {
		return out, nil
	}
	out.Known = true
	if !of.movedOn() {
		return out, nil
	}
	lists, err := s.compareVersions(ctx, of)
	if err != nil {
		return report.Base{Revision: out.Revision}, err
	}
	if out.Changes = report.TakenBack(lists[0], lists[1], lists[2]); len(out.Changes) > 0 {
		out.Activation = s.lastActivation(ctx, Key(of.parent.Policy.Revision))
	}
	return out, nil
}

// compareVersions returns in what the pairs of versions differ; nil if the base is lost, and for the pairs that are not
// needed since the live policy is as the base.
func (s *Server) compareVersions(ctx context.Context, of storedExperiment) (lists [3]*change.List, err error) {
	if of.base == nil {
		return lists, nil
	}
	for i, p := range of.versions() {
		if known := of.versionItems[i]; known != nil {
			lists[i] = known.list
		} else if lists[i], err = s.compared(ctx, of.name, p); err != nil {
			return lists, err
		}
		if i == 0 && lists[0].None() {
			break
		}
	}
	return lists, nil
}

// lastActivation returns how a revision became live the last time; nil if that is not known.
func (s *Server) lastActivation(ctx context.Context, revision Key) *adminpb.PolicyRevision_Activation {
	found, err := s.storedRevision(ctx, revision)
	if err != nil || len(found.GetActivations()) == 0 {
		return nil
	}
	return found.Activations[0]
}
