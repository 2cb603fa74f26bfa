package admin

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/content"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// checkPromotion holds a promotion against what its destination requires of commits. What
// becomes live in the place of another policy has to be rehearsed there, by an experiment
// with the same content; of what is new, nothing can be compared. Four eyes hold for all of
// it.
func (s *Server) checkPromotion(ctx context.Context, p *Promotion) error {
	pairs := p.changing()
	required := p.destination.Requirements()
	if len(pairs) == 0 || !report.Demands(required) {
		return nil
	}
	if required.GetRequireDifferentCommitter() {
		if err := s.checkPromoter(ctx, p, pairs); err != nil {
			return err
		}
	}
	evidence := proto.CloneOf(required)
	evidence.RequireDifferentCommitter = false
	if !report.Demands(evidence) {
		return nil
	}
	for _, pair := range pairs {
		if !pair.Target.exists() {
			continue
		}
		if err := s.checkRehearsed(ctx, p, pair, evidence); err != nil {
			return err
		}
	}
	return nil
}

// checkPromoter is the four eyes of a promotion: the caller has neither said where policies
// are promoted to nor created one of the revisions. Who is not known may be the caller.
func (s *Server) checkPromoter(ctx context.Context, p *Promotion, pairs []Promoted) error {
	caller, editor := access.FromContext(ctx).Member, p.source.config.GetNextLocationEditor()
	switch {
	case caller == "":
		return p.sameEyes(p.source.Name, "it is not known who promotes, since the server does not authenticate its callers.")
	case editor == "":
		return p.sameEyes(p.source.Name, "it is not known who has set its next_location. Take that away, and set it again.")
	case editor == caller:
		return p.sameEyes(p.source.Name, apierror.Shown(caller)+" has set its next_location. Somebody else has to promote.")
	}
	creators, err := s.creatorsOf(ctx, pairs)
	if err != nil {
		return err
	}
	for i, pair := range pairs {
		switch revision := Key(pair.Source.Policy.Revision); creators[i] {
		case "":
			return p.sameEyes(revision, "it is not known who has created it. Change the policy, so that it gets a revision of which that is known.")
		case caller:
			return p.sameEyes(revision, apierror.Shown(caller)+" has created it. Somebody else has to promote it.")
		}
	}
	return nil
}

// sameEyes is FAILED_PRECONDITION of a promotion by somebody who may not be the one.
func (p *Promotion) sameEyes(about Key, why string) error {
	return apierror.Precondition(about, apierror.ReasonRequirementsNotMet,
		"'"+string(p.To)+"' requires "+report.DifferentCommitter+", and "+why)
}

// creatorsOf returns who has created the revisions that are promoted, each empty if that
// is not known. A revision that is live is put with its policy alone, on which the promotion
// depends.
func (s *Server) creatorsOf(ctx context.Context, pairs []Promoted) ([]string, error) {
	keys := make([]Key, len(pairs))
	for i, pair := range pairs {
		keys[i] = Key(pair.Source.Policy.Revision)
	}
	records, err := s.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	creators := make([]string, len(pairs))
	for i, r := range records {
		if revision, err := Decode(r, &adminpb.PolicyRevision{}); r.Key != "" && err == nil {
			creators[i] = revision.Creator
		}
	}
	return creators, nil
}

// checkRehearsed looks for an experiment of the policy that is replaced whose content is
// promoted and whose report shows what is required. The promotion depends on the one that it
// finds, as a commit would.
func (s *Server) checkRehearsed(ctx context.Context, p *Promotion, pair Promoted, required *adminpb.CommitRequirements) error {
	records, err := s.List(ctx, Query{Collection: pair.name.In("experiments")})
	if err != nil {
		return err
	}
	var refused error
	for _, r := range records {
		stored := s.asExperiment(ctx, r.Key, r, pair.Target.Record)
		if stored.acceptances, err = s.readAcceptances(ctx, r.Key); err != nil {
			return err
		}
		if stored.damage != nil || !proto.Equal(content.OfPolicy(stored.experiment.Policy), content.OfPolicy(pair.Source.Policy)) {
			continue
		}
		if stored.base, err = s.readBase(ctx, r.Key); err != nil {
			return err
		}
		err := s.checkEvidence(ctx, stored, required, p.destination.Requirements().GetRequireDifferentCommitter())
		if err == nil {
			p.conditions = append(p.conditions, stored.unchanged(), stored.acceptances.unchanged())
			return nil
		}
		refused = cmp.Or(refused, err)
	}
	return cmp.Or(refused, apierror.Precondition(pair.name, apierror.ReasonRequirementsNotMet,
		"'"+string(p.To)+"' requires "+report.Format(required)+" of what becomes live, and the policy has no experiment there with the content of '"+
			pair.Source.Policy.Revision+"'. Create one with that content, preview it, and promote again."))
}

// checkEvidence returns the error of an experiment whose report does not show what is
// required. With fourEyes, nobody who has set its policy may have accepted anything.
func (s *Server) checkEvidence(
	ctx context.Context, stored storedExperiment, required *adminpb.CommitRequirements, fourEyes bool,
) error {
	in, err := s.reportInput(ctx, stored)
	if err != nil {
		return err
	}
	judged, err := s.judgeBy(ctx, stored, in, standard{location: required, fourEyes: fourEyes})
	if err != nil {
		return err
	}
	if unmet := report.Unmet(judged); len(unmet) > 0 {
		return apierror.RequirementsNotMet(stored.name, unmet)
	}
	return nil
}
