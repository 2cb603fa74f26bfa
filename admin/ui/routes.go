package ui

import (
	"net/http"
	"net/url"

	"understudy/admin/rest"
	adminpb "understudy/admin/v1"
)

// The collections of names, as patterns have them.
const (
	inLocation   = "projects/{projects}/locations/{locations}"
	inPolicy     = inLocation + "/policies/{policies}"
	inExperiment = inPolicy + "/experiments/{experiments}"
	inRevision   = inPolicy + "/revisions/{revisions}"
)

// routes are all addresses. A form is posted to the address of the page that has it, and makes one
// call of the API on what the address names.
func (u *UI) routes() *http.ServeMux {
	mux := http.NewServeMux()
	get := func(pattern string, make func(*http.Request) (*view, error)) {
		mux.HandleFunc("GET "+Root+pattern, func(w http.ResponseWriter, r *http.Request) { u.show(w, r, make) })
	}
	post := func(pattern string, method rest.Method, named func(*http.Request) string, do func(*http.Request) (*url.URL, *view, error)) {
		mux.HandleFunc("POST "+Root+pattern, func(w http.ResponseWriter, r *http.Request) {
			u.do(w, r, func() error { return u.config.Services.Authorize(r.Context(), method, named(r)) }, do)
		})
	}
	mux.HandleFunc("GET "+Root+"{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, address(u.config.Location), http.StatusFound)
	})
	get(inLocation, u.location)
	get(inLocation+"/stages", u.stages)
	get(inLocation+"/promote", u.confirmPromotion)
	post(inLocation+"/promote", adminpb.PolicyPreview_PromotePolicies_FullMethodName, locationNamed, u.promote)
	get(inLocation+"/operations/{operations}", u.operation)
	get(inPolicy, u.policy)
	get(inExperiment, u.experiment)
	post(inExperiment+"/start", adminpb.PolicyPreview_StartPreviewPolicyExperiment_FullMethodName, experimentNamed, u.start)
	post(inExperiment+"/stop", adminpb.PolicyPreview_StopPreviewPolicyExperiment_FullMethodName, experimentNamed, u.stop)
	get(inExperiment+"/commit", u.confirmCommit)
	post(inExperiment+"/commit", adminpb.PolicyPreview_CommitPolicyExperiment_FullMethodName, experimentNamed, u.commit)
	get(inExperiment+"/accept", u.confirmAcceptance)
	post(inExperiment+"/accept", adminpb.PolicyPreview_CreateAcceptance_FullMethodName, experimentNamed, u.accept)
	post(inExperiment+"/takeBack", adminpb.PolicyPreview_DeleteAcceptance_FullMethodName, experimentNamed, u.takeBack)
	get(inRevision, u.revision)
	get(inRevision+"/rollback", u.confirmRollback)
	post(inRevision+"/rollback", adminpb.PolicyPreview_RollbackPolicy_FullMethodName, revisionNamed, u.rollback)
	return mux
}

// The names of resources of a request.
func locationNamed(r *http.Request) string { return named(r, "projects", "locations") }
func policyNamed(r *http.Request) string   { return named(r, "projects", "locations", "policies") }
func experimentNamed(r *http.Request) string {
	return named(r, "projects", "locations", "policies", "experiments")
}
func revisionNamed(r *http.Request) string {
	return named(r, "projects", "locations", "policies", "revisions")
}
func operationNamed(r *http.Request) string {
	return named(r, "projects", "locations", "operations")
}
