package ui

import (
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"

	"understudy/admin/access"
	"understudy/admin/history"
	adminpb "understudy/admin/v1"
)

// revisionsShown is how many revisions of a policy are listed, and dataShown how many bytes of
// its data.
const (
	revisionsShown = 50
	dataShown      = 64 << 10
)

// policyView is what the page of a policy shows next to its experiments.
type policyView struct {
	*adminpb.Policy
	Creator     string
	Enforced    enforced
	Experiments []experimentRow
	// Denied says that the experiments may not be seen.
	Denied bool
}

// revisionRow is a revision in the list.
type revisionRow struct {
	*adminpb.PolicyRevision
	// How says how it became live.
	How      string
	Live     bool
	Rollback bool
}

// revisions are those of a policy.
type revisions struct {
	Rows   []revisionRow
	More   bool
	Denied bool
}

// policy is the view of a policy: what is enforced, its experiments and its revisions.
func (u *UI) policy(r *http.Request) (*view, error) {
	ctx, name := r.Context(), policyNamed(r)
	p, err := u.config.Services.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
	if err != nil {
		return nil, err
	}
	sidecars, err := u.sidecars(ctx, locationOf(name))
	if err != nil {
		return nil, err
	}
	may, err := u.permitted(ctx, name, access.RevisionsList)
	if err != nil {
		return nil, err
	}
	v := policyView{Policy: p, Creator: u.makerOf(ctx, p, may), Enforced: sidecars.enforcing(p)}
	if v.Experiments, err = u.experimentRows(ctx, name); denied(err) {
		v.Denied = true
	} else if err != nil {
		return nil, err
	}
	revisions, err := u.revisions(r, p)
	if err != nil {
		return nil, err
	}
	return &view{
		Title: titled(p.DisplayName, name), Kicker: "Policy", Crumbs: crumbs(name), Location: locationOf(name), Tab: "policies",
		Parts: []part{
			{ID: "policy", Page: "policy", Data: v},
			{ID: "experiments", Page: "experiments", Data: v},
			{ID: "revisions", Page: "revisions", Data: revisions},
			{ID: "content", Page: "content", Data: contentOf(p), Version: versionOf("content", p.Etag)},
		},
	}, nil
}

// revisions lists those of a policy, and offers to roll back to those that are not live.
func (u *UI) revisions(r *http.Request, p *adminpb.Policy) (out revisions, err error) {
	list, err := u.config.Services.ListPolicyRevisions(r.Context(), &adminpb.ListPolicyRevisionsRequest{Parent: p.Name, PageSize: revisionsShown})
	if denied(err) {
		return revisions{Denied: true}, nil
	}
	if err != nil {
		return out, err
	}
	may, err := u.permitted(r.Context(), p.Name, access.PoliciesRollback)
	if err != nil {
		return out, err
	}
	for _, revision := range list.PolicyRevisions {
		last, deleted := revision.Name == p.Revision, p.DeleteTime != nil
		out.Rows = append(out.Rows, revisionRow{revision, history.Of(revision), last && !deleted, !last && !deleted && may[access.PoliciesRollback]})
	}
	out.More = list.NextPageToken != ""
	return out, nil
}

// content is that of a policy.
type content struct{ policy *adminpb.Policy }

// contentOf is that of a policy; its parts are made when they are shown.
func contentOf(p *adminpb.Policy) content { return content{p} }

// Rules are the chain as JSON.
func (c content) Rules() (rules []string) {
	for _, r := range c.policy.Rules {
		rules = append(rules, ruleText(r))
	}
	return rules
}

// file is a module.
type file struct{ Name, Text string }

// Files are the modules.
func (c content) Files() (out []file) {
	for _, name := range keysOf(c.policy.Modules, nil) {
		text := c.policy.Modules[name]
		if len(text) > dataShown {
			text = text[:dataShown] + "\n… cut"
		}
		out = append(out, file{name, text})
	}
	return out
}

// Data is the data document as JSON.
func (c content) Data() string {
	if len(c.policy.GetData().GetFields()) == 0 {
		return ""
	}
	text, err := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(c.policy.Data)
	if err != nil {
		return ""
	}
	if len(text) > dataShown {
		return string(text[:dataShown]) + "\n… cut"
	}
	return string(text)
}
