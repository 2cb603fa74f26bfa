package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"understudy/admin/access"
	"understudy/admin/history"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// revisionView is what the page of a revision shows of it.
type revisionView struct {
	*adminpb.PolicyRevision
	Policy *adminpb.Policy
	Live   bool
	// Rollback says that it can be made live again.
	Rollback bool
	Times    []activated
	// Verdict is that of the report that it keeps, if there is one.
	Verdict *verdictView
}

// activated is one time at which a revision became live.
type activated struct {
	*adminpb.PolicyRevision_Activation
	// How says how, and Source is where the revision is that was promoted.
	How, Source string
}

// otherSide is the form that chooses what a revision is compared with.
type otherSide struct {
	Address string
	Sides   []chosenSide
}

// chosenSide is one of the choices.
type chosenSide struct {
	Value, Text string
	Chosen      bool
}

// liveSide is the choice of the live policy.
const liveSide = "live"

// revisionOf reads the revision that a request names, and its policy.
func (u *UI) revisionOf(r *http.Request) (*adminpb.PolicyRevision, *adminpb.Policy, error) {
	name := revisionNamed(r)
	revision, err := u.config.Services.GetPolicyRevision(r.Context(), &adminpb.GetPolicyRevisionRequest{Name: name})
	if err != nil {
		return nil, nil, err
	}
	policy, err := u.config.Services.GetPolicy(r.Context(), &adminpb.GetPolicyRequest{Name: policyOf(name)})
	return revision, policy, err
}

// revision is the view of a revision: how it became live, what its commit showed, and what
// differs from another one, which the parameter with names.
func (u *UI) revision(r *http.Request) (*view, error) {
	ctx, name := r.Context(), revisionNamed(r)
	revision, p, err := u.revisionOf(r)
	if err != nil {
		return nil, err
	}
	v, err := u.revisionView(ctx, revision, p)
	if err != nil {
		return nil, err
	}
	sides, err := u.sides(ctx, v, r.URL.Query())
	if err != nil {
		return nil, err
	}
	parts := append([]part{{ID: "revision", Page: "revision", Data: v}}, reportParts(revision.Report, r.URL.Query())...)
	parts = append(parts, part{ID: "sides", Page: "sides", Data: sides})
	text, err := u.against(ctx, v, sides)
	if err != nil {
		return nil, err
	}
	if text != nil {
		parts = append(parts, part{ID: "text", Page: "text", Data: *text, Version: text.version})
	}
	return &view{
		Title: titled(revision.GetSnapshot().GetDisplayName(), shortEtag(id(name))), Kicker: "Revision " + shortEtag(id(name)) + " of " + id(p.Name),
		Crumbs: append(crumbs(p.Name), link{id(p.Name), address(p.Name)}), Location: locationOf(name), Tab: "policies", Parts: parts,
	}, nil
}

// reportParts show what a report had shown; none if there is none.
func reportParts(r *adminpb.Report, q url.Values) []part {
	if r == nil {
		return nil
	}
	return []part{
		{ID: "items", Page: "items", Data: itemsOf(r)},
		{ID: "numbers", Page: "numbers", Data: numbersOf(r)},
		{ID: "groups", Page: "groups", Data: groupsOf(r, q)},
		{ID: "known", Page: "known", Data: knownOf(r)},
	}
}

// revisionView is that of a revision.
func (u *UI) revisionView(ctx context.Context, revision *adminpb.PolicyRevision, p *adminpb.Policy) (revisionView, error) {
	v := revisionView{PolicyRevision: revision, Policy: p, Live: revision.Name == p.Revision && p.DeleteTime == nil}
	may, err := u.permitted(ctx, p.Name, access.PoliciesRollback)
	if err != nil {
		return v, err
	}
	v.Rollback = may[access.PoliciesRollback] && !v.Live && p.DeleteTime == nil
	for _, a := range revision.Activations {
		one := activated{PolicyRevision_Activation: a, How: history.Words(a)}
		if a.SourceRevision != "" {
			one.Source = address(a.SourceRevision)
		}
		v.Times = append(v.Times, one)
	}
	if revision.Report != nil {
		judged := viewOf(verdict.Of(revision.Report))
		v.Verdict = &judged
	}
	return v, nil
}

// sides are what a revision can be compared with: what is live, and the other revisions. Without
// a choice it is what is live, and of the live one the revision before.
func (u *UI) sides(ctx context.Context, v revisionView, q url.Values) (otherSide, error) {
	out := otherSide{Address: address(v.Name)}
	if !v.Live && v.Policy.DeleteTime == nil {
		out.Sides = append(out.Sides, chosenSide{Value: liveSide, Text: "what is live"})
	}
	list, err := u.config.Services.ListPolicyRevisions(ctx, &adminpb.ListPolicyRevisionsRequest{Parent: v.Policy.Name, PageSize: 1000})
	if denied(err) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	preferred := 0
	for _, r := range list.PolicyRevisions {
		if r.Name == v.Name {
			preferred = len(out.Sides)
			continue
		}
		out.Sides = append(out.Sides, chosenSide{Value: id(r.Name), Text: strings.Join([]string{shortEtag(id(r.Name)), when(r.CreateTime), history.Of(r)}, ", ")})
	}
	if len(out.Sides) == 0 {
		return out, nil
	}
	if out.Sides[0].Value == liveSide || preferred == len(out.Sides) {
		preferred = 0
	}
	if i := slices.IndexFunc(out.Sides, func(s chosenSide) bool { return s.Value == q.Get("with") }); i >= 0 {
		preferred = i
	}
	out.Sides[preferred].Chosen = true
	return out, nil
}

// against compares a revision with the side that is chosen; nil if there is none.
func (u *UI) against(ctx context.Context, v revisionView, sides otherSide) (*compared, error) {
	i := slices.IndexFunc(sides.Sides, func(s chosenSide) bool { return s.Chosen })
	if i < 0 {
		return nil, nil
	}
	out := &compared{
		Title: "What differs", LeftName: "Live policy", RightName: "Revision " + shortEtag(id(v.Name)), left: v.Policy, right: v.Snapshot,
		version: versionOf("revision", v.Name, v.Policy.Etag, sides.Sides[i].Value),
	}
	if sides.Sides[i].Value == liveSide {
		return out, nil
	}
	other, err := u.config.Services.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: authz.PolicyName(v.Policy.Name).Revision(sides.Sides[i].Value)})
	if err != nil {
		return nil, err
	}
	out.LeftName, out.left = "Revision "+shortEtag(id(other.Name)), other.Snapshot
	return out, nil
}
