package iam

import (
	"context"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// Services are what a Guard stands before.
type Services interface {
	adminpb.PolicyPreviewServer
	longrunningpb.OperationsServer
}

// Guard is Services and IAMPolicy that check each call before they make it: permission
// comes before existence and before validation (AIP-211). It is safe for concurrent use.
type Guard struct {
	// A method that a service gets later is unimplemented until it stands here.
	adminpb.UnimplementedPolicyPreviewServer
	longrunningpb.UnimplementedOperationsServer
	iampb.UnimplementedIAMPolicyServer

	services   Services
	iam        iampb.IAMPolicyServer
	authorizer access.Authorizer
}

// NewGuard returns a Guard. None of its arguments is nil.
func NewGuard(services Services, iam iampb.IAMPolicyServer, authorizer access.Authorizer) *Guard {
	return &Guard{services: services, iam: iam, authorizer: authorizer}
}

// guarded makes a call if the caller may.
func guarded[Q proto.Message, A any](
	ctx context.Context, g *Guard, method string, request Q, call func(context.Context, Q) (A, error),
) (A, error) {
	var none A
	need, ok := access.NeedOf(method)
	if !ok {
		return none, apierror.Unimplemented("The method")
	}
	resource := textAt(request, need.Field)
	if p := need.On(resource); p != "" {
		if err := g.authorizer.Authorize(ctx, p, resource); err != nil {
			return none, err
		}
	}
	return call(ctx, request)
}

// textAt returns the text that a path of fields leads to; empty if it is not there.
func textAt(m proto.Message, path string) string {
	at := m.ProtoReflect()
	for {
		name, rest, deeper := strings.Cut(path, ".")
		field := at.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			return ""
		}
		if !deeper {
			return at.Get(field).String()
		}
		at, path = at.Get(field).Message(), rest
	}
}

// GetPolicy implements the service.
func (g *Guard) GetPolicy(ctx context.Context, r *adminpb.GetPolicyRequest) (*adminpb.Policy, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_GetPolicy_FullMethodName, r, g.services.GetPolicy)
}

// ListPolicies implements the service.
func (g *Guard) ListPolicies(ctx context.Context, r *adminpb.ListPoliciesRequest) (*adminpb.ListPoliciesResponse, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_ListPolicies_FullMethodName, r, g.services.ListPolicies)
}

// CreatePolicy implements the service.
func (g *Guard) CreatePolicy(ctx context.Context, r *adminpb.CreatePolicyRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_CreatePolicy_FullMethodName, r, g.services.CreatePolicy)
}

// UpdatePolicy implements the service.
func (g *Guard) UpdatePolicy(ctx context.Context, r *adminpb.UpdatePolicyRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_UpdatePolicy_FullMethodName, r, g.services.UpdatePolicy)
}

// DeletePolicy implements the service.
func (g *Guard) DeletePolicy(ctx context.Context, r *adminpb.DeletePolicyRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_DeletePolicy_FullMethodName, r, g.services.DeletePolicy)
}

// UndeletePolicy implements the service.
func (g *Guard) UndeletePolicy(ctx context.Context, r *adminpb.UndeletePolicyRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_UndeletePolicy_FullMethodName, r, g.services.UndeletePolicy)
}

// RollbackPolicy implements the service.
func (g *Guard) RollbackPolicy(ctx context.Context, r *adminpb.RollbackPolicyRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_RollbackPolicy_FullMethodName, r, g.services.RollbackPolicy)
}

// PromotePolicies implements the service.
func (g *Guard) PromotePolicies(ctx context.Context, r *adminpb.PromotePoliciesRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_PromotePolicies_FullMethodName, r, g.services.PromotePolicies)
}

// GetPolicyExperiment implements the service.
func (g *Guard) GetPolicyExperiment(ctx context.Context, r *adminpb.GetPolicyExperimentRequest) (*adminpb.PolicyExperiment, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_GetPolicyExperiment_FullMethodName, r, g.services.GetPolicyExperiment)
}

// ListPolicyExperiments implements the service.
func (g *Guard) ListPolicyExperiments(ctx context.Context, r *adminpb.ListPolicyExperimentsRequest) (*adminpb.ListPolicyExperimentsResponse, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_ListPolicyExperiments_FullMethodName, r, g.services.ListPolicyExperiments)
}

// CreatePolicyExperiment implements the service.
func (g *Guard) CreatePolicyExperiment(ctx context.Context, r *adminpb.CreatePolicyExperimentRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_CreatePolicyExperiment_FullMethodName, r, g.services.CreatePolicyExperiment)
}

// UpdatePolicyExperiment implements the service.
func (g *Guard) UpdatePolicyExperiment(ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_UpdatePolicyExperiment_FullMethodName, r, g.services.UpdatePolicyExperiment)
}

// DeletePolicyExperiment implements the service.
func (g *Guard) DeletePolicyExperiment(ctx context.Context, r *adminpb.DeletePolicyExperimentRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_DeletePolicyExperiment_FullMethodName, r, g.services.DeletePolicyExperiment)
}

// StartPreviewPolicyExperiment implements the service.
func (g *Guard) StartPreviewPolicyExperiment(ctx context.Context, r *adminpb.StartPreviewPolicyExperimentRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_StartPreviewPolicyExperiment_FullMethodName, r, g.services.StartPreviewPolicyExperiment)
}

// StopPreviewPolicyExperiment implements the service.
func (g *Guard) StopPreviewPolicyExperiment(ctx context.Context, r *adminpb.StopPreviewPolicyExperimentRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_StopPreviewPolicyExperiment_FullMethodName, r, g.services.StopPreviewPolicyExperiment)
}

// CommitPolicyExperiment implements the service.
func (g *Guard) CommitPolicyExperiment(ctx context.Context, r *adminpb.CommitPolicyExperimentRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_CommitPolicyExperiment_FullMethodName, r, g.services.CommitPolicyExperiment)
}

// GetReport implements the service.
func (g *Guard) GetReport(ctx context.Context, r *adminpb.GetReportRequest) (*adminpb.Report, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_GetReport_FullMethodName, r, g.services.GetReport)
}

// GetAcceptance implements the service.
func (g *Guard) GetAcceptance(ctx context.Context, r *adminpb.GetAcceptanceRequest) (*adminpb.Acceptance, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_GetAcceptance_FullMethodName, r, g.services.GetAcceptance)
}

// ListAcceptances implements the service.
func (g *Guard) ListAcceptances(ctx context.Context, r *adminpb.ListAcceptancesRequest) (*adminpb.ListAcceptancesResponse, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_ListAcceptances_FullMethodName, r, g.services.ListAcceptances)
}

// CreateAcceptance implements the service.
func (g *Guard) CreateAcceptance(ctx context.Context, r *adminpb.CreateAcceptanceRequest) (*adminpb.Acceptance, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_CreateAcceptance_FullMethodName, r, g.services.CreateAcceptance)
}

// DeleteAcceptance implements the service.
func (g *Guard) DeleteAcceptance(ctx context.Context, r *adminpb.DeleteAcceptanceRequest) (*emptypb.Empty, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_DeleteAcceptance_FullMethodName, r, g.services.DeleteAcceptance)
}

// GetPolicyRevision implements the service.
func (g *Guard) GetPolicyRevision(ctx context.Context, r *adminpb.GetPolicyRevisionRequest) (*adminpb.PolicyRevision, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_GetPolicyRevision_FullMethodName, r, g.services.GetPolicyRevision)
}

// ListPolicyRevisions implements the service.
func (g *Guard) ListPolicyRevisions(ctx context.Context, r *adminpb.ListPolicyRevisionsRequest) (*adminpb.ListPolicyRevisionsResponse, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_ListPolicyRevisions_FullMethodName, r, g.services.ListPolicyRevisions)
}

// GetConfig implements the service.
func (g *Guard) GetConfig(ctx context.Context, r *adminpb.GetConfigRequest) (*adminpb.Config, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_GetConfig_FullMethodName, r, g.services.GetConfig)
}

// UpdateConfig implements the service.
func (g *Guard) UpdateConfig(ctx context.Context, r *adminpb.UpdateConfigRequest) (*adminpb.Config, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_UpdateConfig_FullMethodName, r, g.services.UpdateConfig)
}

// GetNode implements the service.
func (g *Guard) GetNode(ctx context.Context, r *adminpb.GetNodeRequest) (*adminpb.Node, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_GetNode_FullMethodName, r, g.services.GetNode)
}

// ListNodes implements the service.
func (g *Guard) ListNodes(ctx context.Context, r *adminpb.ListNodesRequest) (*adminpb.ListNodesResponse, error) {
	return guarded(ctx, g, adminpb.PolicyPreview_ListNodes_FullMethodName, r, g.services.ListNodes)
}

// ListOperations implements google.longrunning.Operations.
func (g *Guard) ListOperations(ctx context.Context, r *longrunningpb.ListOperationsRequest) (*longrunningpb.ListOperationsResponse, error) {
	return guarded(ctx, g, longrunningpb.Operations_ListOperations_FullMethodName, r, g.services.ListOperations)
}

// GetOperation implements google.longrunning.Operations.
func (g *Guard) GetOperation(ctx context.Context, r *longrunningpb.GetOperationRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, longrunningpb.Operations_GetOperation_FullMethodName, r, g.services.GetOperation)
}

// WaitOperation implements google.longrunning.Operations.
func (g *Guard) WaitOperation(ctx context.Context, r *longrunningpb.WaitOperationRequest) (*longrunningpb.Operation, error) {
	return guarded(ctx, g, longrunningpb.Operations_WaitOperation_FullMethodName, r, g.services.WaitOperation)
}

// DeleteOperation implements google.longrunning.Operations.
func (g *Guard) DeleteOperation(ctx context.Context, r *longrunningpb.DeleteOperationRequest) (*emptypb.Empty, error) {
	return guarded(ctx, g, longrunningpb.Operations_DeleteOperation_FullMethodName, r, g.services.DeleteOperation)
}

// CancelOperation implements google.longrunning.Operations.
func (g *Guard) CancelOperation(ctx context.Context, r *longrunningpb.CancelOperationRequest) (*emptypb.Empty, error) {
	return guarded(ctx, g, longrunningpb.Operations_CancelOperation_FullMethodName, r, g.services.CancelOperation)
}

// GetIamPolicy implements google.iam.v1.IAMPolicy.
func (g *Guard) GetIamPolicy(ctx context.Context, r *iampb.GetIamPolicyRequest) (*iampb.Policy, error) {
	return guarded(ctx, g, iampb.IAMPolicy_GetIamPolicy_FullMethodName, r, g.iam.GetIamPolicy)
}

// SetIamPolicy implements google.iam.v1.IAMPolicy.
func (g *Guard) SetIamPolicy(ctx context.Context, r *iampb.SetIamPolicyRequest) (*iampb.Policy, error) {
	return guarded(ctx, g, iampb.IAMPolicy_SetIamPolicy_FullMethodName, r, g.iam.SetIamPolicy)
}

// TestIamPermissions implements google.iam.v1.IAMPolicy.
func (g *Guard) TestIamPermissions(ctx context.Context, r *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	return guarded(ctx, g, iampb.IAMPolicy_TestIamPermissions_FullMethodName, r, g.iam.TestIamPermissions)
}
