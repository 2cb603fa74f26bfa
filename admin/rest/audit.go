package rest

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"understudy/admin/apierror"
	"understudy/admin/audit"
	adminpb "understudy/admin/v1"
)

// Audited returns services whose changes are recorded, also those that are refused: it stands
// before whatever checks permissions. With a nil Recorder they are the services themselves.
func Audited(services Services, r *audit.Recorder) Services {
	if r == nil {
		return services
	}
	return audited{services, r}
}

// AuditedIAM is Audited of IAM.
func AuditedIAM(services iampb.IAMPolicyServer, r *audit.Recorder) iampb.IAMPolicyServer {
	if r == nil {
		return services
	}
	return auditedIAM{services, r}
}

// auditedIAM is IAM that records each change of who may do what.
type auditedIAM struct {
	iampb.IAMPolicyServer
	recorder *audit.Recorder
}

// SetIamPolicy implements the service.
func (s auditedIAM) SetIamPolicy(ctx context.Context, r *iampb.SetIamPolicyRequest) (*iampb.Policy, error) {
	return call(ctx, s.recorder, iampb.IAMPolicy_SetIamPolicy_FullMethodName, r.GetResource(), r, s.IAMPolicyServer.SetIamPolicy)
}

// audited is Services that records each call which changes something, or was to. What it does
// not name is reading.
type audited struct {
	Services
	recorder *audit.Recorder
}

// call makes a call with its entry: that of the edge, or one of its own if there is none.
// method is the full name of gRPC, and resource the name that the caller gave.
func call[Q, A any](
	ctx context.Context, r *audit.Recorder, method, resource string, request Q, make func(context.Context, Q) (A, error),
) (answer A, err error) {
	entry := audit.FromContext(ctx)
	if entry == nil {
		ctx, entry = r.Begin(ctx, audit.Call{Method: strings.TrimPrefix(method, "/")})
	}
	entry.Resource(resource)
	if v, ok := any(request).(interface{ GetValidateOnly() bool }); ok && v.GetValidateOnly() {
		entry.ValidateOnly()
	}
	err = apierror.Internal() // so a panic ends
	defer func() { entry.End(err) }()
	answer, err = make(ctx, request)
	return answer, err
}

// reading are the words that the methods begin with which change nothing.
var reading = []string{"Get", "List", "Wait", "Test"}

// changes reports whether a method, by its full name of gRPC, changes something.
func changes(method string) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	return !slices.ContainsFunc(reading, func(word string) bool { return strings.HasPrefix(name, word) })
}

// recorded begins the entry of a call of REST that changes something, before it is known
// whether its caller may make it. end ends it with the status of the answer if nobody who
// knows more has ended it by then.
func (a *API) recorded(w http.ResponseWriter, r *http.Request, route route) (http.ResponseWriter, *http.Request, func()) {
	if a.audit == nil || route.document || !changes(route.rpc) {
		return w, r, func() {}
	}
	ctx, entry := a.audit.Begin(r.Context(), audit.Call{
		Method: strings.TrimPrefix(route.rpc, "/"), Resource: route.resource(r.URL.EscapedPath()),
	})
	answer := &observedResponse{ResponseWriter: w}
	return answer, r.WithContext(ctx), func() {
		entry.End(audit.HTTPOutcome(cmp.Or(answer.code, http.StatusInternalServerError))) // a panic has not answered yet
	}
}

// observedResponse is a response whose status is looked at.
type observedResponse struct {
	http.ResponseWriter
	// code is 0 as long as there is no answer.
	code int
}

// WriteHeader implements http.ResponseWriter.
func (o *observedResponse) WriteHeader(code int) {
	o.code = code
	o.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (o *observedResponse) Write(p []byte) (int, error) {
	o.code = cmp.Or(o.code, http.StatusOK)
	return o.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (o *observedResponse) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// CreatePolicy implements the service.
func (s audited) CreatePolicy(ctx context.Context, r *adminpb.CreatePolicyRequest) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_CreatePolicy_FullMethodName, r.GetParent()+"/policies/"+r.GetPolicyId(), r, s.Services.CreatePolicy)
}

// UpdatePolicy implements the service.
func (s audited) UpdatePolicy(ctx context.Context, r *adminpb.UpdatePolicyRequest) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_UpdatePolicy_FullMethodName, r.GetPolicy().GetName(), r, s.Services.UpdatePolicy)
}

// DeletePolicy implements the service.
func (s audited) DeletePolicy(ctx context.Context, r *adminpb.DeletePolicyRequest) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_DeletePolicy_FullMethodName, r.GetName(), r, s.Services.DeletePolicy)
}

// UndeletePolicy implements the service.
func (s audited) UndeletePolicy(ctx context.Context, r *adminpb.UndeletePolicyRequest) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_UndeletePolicy_FullMethodName, r.GetName(), r, s.Services.UndeletePolicy)
}

// CreatePolicyExperiment implements the service.
func (s audited) CreatePolicyExperiment(
	ctx context.Context, r *adminpb.CreatePolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_CreatePolicyExperiment_FullMethodName,
		r.GetParent()+"/experiments/"+r.GetPolicyExperimentId(), r, s.Services.CreatePolicyExperiment)
}

// UpdatePolicyExperiment implements the service.
func (s audited) UpdatePolicyExperiment(
	ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_UpdatePolicyExperiment_FullMethodName,
		r.GetPolicyExperiment().GetName(), r, s.Services.UpdatePolicyExperiment)
}

// DeletePolicyExperiment implements the service.
func (s audited) DeletePolicyExperiment(
	ctx context.Context, r *adminpb.DeletePolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_DeletePolicyExperiment_FullMethodName, r.GetName(), r, s.Services.DeletePolicyExperiment)
}

// StartPreviewPolicyExperiment implements the service.
func (s audited) StartPreviewPolicyExperiment(
	ctx context.Context, r *adminpb.StartPreviewPolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_StartPreviewPolicyExperiment_FullMethodName, r.GetName(), r, s.Services.StartPreviewPolicyExperiment)
}

// StopPreviewPolicyExperiment implements the service.
func (s audited) StopPreviewPolicyExperiment(
	ctx context.Context, r *adminpb.StopPreviewPolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_StopPreviewPolicyExperiment_FullMethodName, r.GetName(), r, s.Services.StopPreviewPolicyExperiment)
}

// CommitPolicyExperiment implements the service.
func (s audited) CommitPolicyExperiment(
	ctx context.Context, r *adminpb.CommitPolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_CommitPolicyExperiment_FullMethodName, r.GetName(), r, s.Services.CommitPolicyExperiment)
}

// CreateAcceptance implements the service.
func (s audited) CreateAcceptance(ctx context.Context, r *adminpb.CreateAcceptanceRequest) (*adminpb.Acceptance, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_CreateAcceptance_FullMethodName,
		r.GetParent()+"/acceptances/"+r.GetAcceptanceId(), r, s.Services.CreateAcceptance)
}

// DeleteAcceptance implements the service.
func (s audited) DeleteAcceptance(ctx context.Context, r *adminpb.DeleteAcceptanceRequest) (*emptypb.Empty, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_DeleteAcceptance_FullMethodName, r.GetName(), r, s.Services.DeleteAcceptance)
}

// RollbackPolicy implements the service.
func (s audited) RollbackPolicy(ctx context.Context, r *adminpb.RollbackPolicyRequest) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_RollbackPolicy_FullMethodName, r.GetName(), r, s.Services.RollbackPolicy)
}

// PromotePolicies implements the service.
func (s audited) PromotePolicies(ctx context.Context, r *adminpb.PromotePoliciesRequest) (*longrunningpb.Operation, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_PromotePolicies_FullMethodName, r.GetParent(), r, s.Services.PromotePolicies)
}

// UpdateConfig implements the service.
func (s audited) UpdateConfig(ctx context.Context, r *adminpb.UpdateConfigRequest) (*adminpb.Config, error) {
	return call(ctx, s.recorder, adminpb.PolicyPreview_UpdateConfig_FullMethodName, r.GetConfig().GetName(), r, s.Services.UpdateConfig)
}

// DeleteOperation implements the service.
func (s audited) DeleteOperation(ctx context.Context, r *longrunningpb.DeleteOperationRequest) (*emptypb.Empty, error) {
	return call(ctx, s.recorder, longrunningpb.Operations_DeleteOperation_FullMethodName, r.GetName(), r, s.Services.DeleteOperation)
}

// CancelOperation implements the service.
func (s audited) CancelOperation(ctx context.Context, r *longrunningpb.CancelOperationRequest) (*emptypb.Empty, error) {
	return call(ctx, s.recorder, longrunningpb.Operations_CancelOperation_FullMethodName, r.GetName(), r, s.Services.CancelOperation)
}
