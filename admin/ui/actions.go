package ui

import (
	"net/http"
	"net/url"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// at is an address as a URL.
func at(name string, more ...string) *url.URL { return &url.URL{Path: Root + name + suffix(more)} }

// suffix joins what is below a name.
func suffix(more []string) (text string) {
	for _, m := range more {
		text += "/" + m
	}
	return text
}

// operationAt is where an operation is followed.
func operationAt(op *longrunningpb.Operation) *url.URL { return at(op.Name) }

// start starts the preview of an experiment.
func (u *UI) start(r *http.Request) (*url.URL, *view, error) {
	name := experimentNamed(r)
	_, err := u.config.Services.StartPreviewPolicyExperiment(r.Context(), &adminpb.StartPreviewPolicyExperimentRequest{
		Name: name, Etag: r.PostFormValue("etag"),
	})
	return at(name), nil, err
}

// stop stops it.
func (u *UI) stop(r *http.Request) (*url.URL, *view, error) {
	name := experimentNamed(r)
	_, err := u.config.Services.StopPreviewPolicyExperiment(r.Context(), &adminpb.StopPreviewPolicyExperimentRequest{
		Name: name, Etag: r.PostFormValue("etag"),
	})
	return at(name), nil, err
}

// confirmCommit asks whether an experiment is to be committed, naming both etags.
func (u *UI) confirmCommit(r *http.Request) (*view, error) {
	name := experimentNamed(r)
	t, err := u.readTrial(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if !t.May.Commit {
		return nil, apierror.PermissionDenied(apierror.Permission(access.ExperimentsCommit), name)
	}
	asks, err := u.confirmedBy(r.Context(), t)
	if err != nil {
		return nil, err
	}
	return &view{
		Title: "Commit " + id(name) + "?", Kicker: "Nothing is done yet", Asks: true,
		Crumbs: append(crumbs(name), link{id(name), address(name)}), Location: locationOf(name), Tab: "policies",
		Parts: slices.Concat([]part{
			{ID: "asked", Page: "asked", Data: t},
			{ID: "undoes", Page: "undoes", Data: verdict.TakenBack(t.Report)},
		}, reportParts(t.Report, r.URL.Query()), []part{
			{ID: "text", Page: "text", Data: comparedText(t.Policy, t.Experiment.Policy, t.Report)},
			{ID: "requirements", Page: "requirements", Data: requirementsOf(t.Report)},
			{ID: "commit", Page: "commit", Data: asks}, // below what would change
		}),
	}, nil
}

// commit makes the acceptances that the form names, and commits exactly its two versions.
func (u *UI) commit(r *http.Request) (*url.URL, *view, error) {
	name, etag, parent := experimentNamed(r), r.PostFormValue("etag"), r.PostFormValue("parent_etag")
	if etag == "" || parent == "" {
		return nil, nil, apierror.Required("etag", "Load the page of the experiment again, and commit from there.")
	}
	required, err := requiredBy(r)
	if err != nil {
		return nil, nil, err
	}
	var op *longrunningpb.Operation
	if err = u.acceptDoubts(r, name, etag, parent); err == nil {
		op, err = u.config.Services.CommitPolicyExperiment(r.Context(), &adminpb.CommitPolicyExperimentRequest{
			Name: name, Etag: etag, ParentEtag: parent, Requirements: required,
		})
	}
	if status.Code(err) == codes.Aborted {
		instead, readErr := u.changedMeanwhile(r, name, etag, parent, err)
		if readErr != nil {
			return nil, nil, err
		}
		return nil, instead, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return operationAt(op), nil, nil
}

// changed is what the page of a commit that came too late shows.
type changed struct {
	*trial
	// Message is that of the server.
	Message string
	// Etag and ParentEtag are what was seen.
	Etag, ParentEtag string
	Creator          string
}

// changedMeanwhile says what was changed while somebody thought about a commit.
func (u *UI) changedMeanwhile(r *http.Request, name, etag, parent string, cause error) (*view, error) {
	t, err := u.readTrial(r.Context(), name)
	if err != nil {
		return nil, err
	}
	may, err := u.permitted(r.Context(), t.Policy.Name, access.RevisionsList)
	if err != nil {
		return nil, err
	}
	return &view{
		Title: "Not committed: it has changed", Kicker: "Nothing was done", Asks: true,
		Crumbs: append(crumbs(name), link{id(name), address(name)}), Location: locationOf(name), Tab: "policies",
		Parts: []part{{ID: "changed", Page: "changed", Data: changed{
			trial: t, Message: status.Convert(cause).Message(), Etag: etag, ParentEtag: parent, Creator: u.makerOf(r.Context(), t.Policy, may),
		}}},
	}, nil
}

// reverted is what the page that asks for a rollback shows.
type reverted struct {
	Policy   *adminpb.Policy
	Revision *adminpb.PolicyRevision
}

// confirmRollback asks whether a policy is to have the content of a revision again.
func (u *UI) confirmRollback(r *http.Request) (*view, error) {
	ctx, name := r.Context(), revisionNamed(r)
	revision, p, err := u.revisionOf(r)
	if err != nil {
		return nil, err
	}
	may, err := u.permitted(ctx, p.Name, access.PoliciesRollback)
	if err != nil {
		return nil, err
	}
	if !may[access.PoliciesRollback] {
		return nil, apierror.PermissionDenied(apierror.Permission(access.PoliciesRollback), p.Name)
	}
	text := compared{Title: "What would change", LeftName: "Live policy", RightName: "Revision", left: p, right: revision.Snapshot}
	return &view{
		Title: "Roll " + id(p.Name) + " back?", Kicker: "Nothing is done yet", Asks: true,
		Crumbs: append(crumbs(p.Name), link{id(p.Name), address(p.Name)}), Location: locationOf(name), Tab: "policies",
		Parts: []part{
			{ID: "rollback", Page: "rollback", Data: reverted{p, revision}},
			{ID: "text", Page: "text", Data: text},
		},
	}, nil
}

// rollback makes the content of a revision live, if the policy is still the one that was seen.
func (u *UI) rollback(r *http.Request) (*url.URL, *view, error) {
	if r.PostFormValue("etag") == "" {
		return nil, nil, apierror.Required("etag", "Load the page of the policy again, and roll back from there.")
	}
	op, err := u.config.Services.RollbackPolicy(r.Context(), &adminpb.RollbackPolicyRequest{Name: revisionNamed(r), Etag: r.PostFormValue("etag")})
	if err != nil {
		return nil, nil, err
	}
	return operationAt(op), nil, nil
}
