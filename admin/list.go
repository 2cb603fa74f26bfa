package admin

import (
	"context"
	"strconv"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Lists are filtered and ordered here and not in the stores: a filter (AIP-160) can name any
// field, and a store never looks into a value. So a list reads its whole collection, at one
// instant, but no contents unless its view or its filter needs them (AIP-157). What makes a
// page is bounded in bytes as well, for clients of gRPC refuse a larger message.

// listRequest is what the requests of all lists have in common.
type listRequest interface {
	GetPageSize() int32
	GetPageToken() string
	GetFilter() string
}

// viewedRequest is what the requests of lists with a view have in addition.
type viewedRequest interface{ GetView() adminpb.PolicyView }

// listQuery is a list as it was asked for, parsed.
type listQuery struct {
	filter aip.Filter
	order  aip.Order
	size   int
	token  string
	// full says that contents are returned.
	full bool
	// query is all that a page token is bound to.
	query []string
}

// parseListing parses what is common to lists. orderBy is empty where a list has no
// order_by; more are further parts of the query.
func parseListing(r listRequest, orderBy string, schema aip.Schema, more ...string) (listQuery, error) {
	l := listQuery{token: r.GetPageToken(), query: append(more, r.GetFilter(), orderBy)}
	var err error
	if l.size, err = aip.PageSize(r.GetPageSize()); err != nil {
		return l, apierror.Invalid(apierror.ReasonInvalidPageSize, "page_size", err.Error())
	}
	if l.filter, err = aip.ParseFilter(r.GetFilter(), schema); err != nil {
		return l, apierror.Invalid(apierror.ReasonInvalidFilter, "filter", err.Error())
	}
	if l.order, err = aip.ParseOrder(orderBy, schema.Message); err != nil {
		return l, apierror.Invalid(apierror.ReasonInvalidOrderBy, "order_by", err.Error())
	}
	if viewed, ok := r.(viewedRequest); ok {
		return l, l.parseView(viewed.GetView())
	}
	return l, nil
}

// parseView parses how much of each item is returned.
func (l *listQuery) parseView(v adminpb.PolicyView) error {
	if _, known := adminpb.PolicyView_name[int32(v)]; !known {
		return apierror.Invalid(apierror.ReasonInvalidField, "view", "It is POLICY_VIEW_BASIC or POLICY_VIEW_FULL.")
	}
	l.full = v == adminpb.PolicyView_POLICY_VIEW_FULL
	l.query = append(l.query, strconv.FormatBool(l.full))
	return nil
}

// read reads the records of a list, without their contents if they are not needed: these
// records go nowhere but into the list.
func (l *listQuery) read(ctx context.Context, s *Server, c Collection) ([]Record, error) {
	if l.full || l.filter.Uses(content.Large) {
		return s.List(ctx, Query{Collection: c})
	}
	summaries, err := s.ListSummaries(ctx, Query{Collection: c})
	records := make([]Record, len(summaries))
	for i, summary := range summaries {
		records[i] = Record(summary)
	}
	return records, err
}

// maxPageBytes is the size of a page, unless that is of one item: less than the 4 MiB
// that clients of gRPC take if they are not configured otherwise. AIP-158 lets a page be
// smaller than was asked for.
const maxPageBytes = 3 << 20

// page returns the page of the items that the filter matches, each as the view has it.
func page[M proto.Message](l listQuery, items []M) ([]M, string, error) {
	var matching []M
	for _, m := range items {
		if !l.filter.Match(m) {
			continue
		}
		if !l.full {
			m = content.Basic(m)
		}
		matching = append(matching, m)
	}
	out, next, err := aip.Page(matching, l.order, l.size, l.token, l.query...)
	if fitting := fit(out); err == nil && fitting < len(out) {
		out, next, err = aip.Page(matching, l.order, fitting, l.token, l.query...)
	}
	if err != nil {
		return nil, "", apierror.Invalid(apierror.ReasonInvalidPageToken, "page_token", err.Error())
	}
	return out, next, nil
}

// fit returns how many of the items are a page, at least one.
func fit[M proto.Message](items []M) int {
	size := 0
	for i, m := range items {
		if size += proto.Size(m); size > maxPageBytes && i > 0 {
			return i
		}
	}
	return len(items)
}

var (
	policySchema = aip.Schema{
		Message: (&adminpb.Policy{}).ProtoReflect().Descriptor(), Search: []string{"name", "display_name"},
	}
	experimentSchema = aip.Schema{
		Message: (&adminpb.PolicyExperiment{}).ProtoReflect().Descriptor(), Search: []string{"name", "display_name"},
	}
	revisionSchema = aip.Schema{
		Message: (&adminpb.PolicyRevision{}).ProtoReflect().Descriptor(), Search: []string{"name"},
	}
	datasetSchema = aip.Schema{
		Message: (&adminpb.Dataset{}).ProtoReflect().Descriptor(), Search: []string{"name", "display_name"},
	}
	versionSchema = aip.Schema{
		Message: (&adminpb.DatasetVersion{}).ProtoReflect().Descriptor(), Search: []string{"name"},
	}
	nodeSchema = aip.Schema{
		Message: (&adminpb.Node{}).ProtoReflect().Descriptor(), Search: []string{"name"},
	}
	operationSchema = aip.Schema{
		Message: (&longrunningpb.Operation{}).ProtoReflect().Descriptor(), Search: []string{"name"},
		Packed: packedTypes,
		Unpack: unpacked,
	}
)

// ListPolicies implements AIP-132. It omits soft-deleted policies unless they are
// asked for (AIP-164).
func (s *Server) ListPolicies(
	ctx context.Context, r *adminpb.ListPoliciesRequest,
) (*adminpb.ListPoliciesResponse, error) {
	parent, err := locationKind.parseParent("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, r.GetOrderBy(), policySchema, r.GetParent(), strconv.FormatBool(r.GetShowDeleted()))
	if err != nil {
		return nil, err
	}
	policies, unreachable, err := readAll(ctx, s, l, listed{parent.In("policies"), r.GetShowDeleted()}, func(p *adminpb.Policy, reconciling bool) bool {
		p.Reconciling = reconciling
		return p.DeleteTime == nil || r.GetShowDeleted()
	})
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, policies)
	return &adminpb.ListPoliciesResponse{Policies: out, NextPageToken: next, Unreachable: unreachable}, err
}

// ListPolicyExperiments implements AIP-132.
func (s *Server) ListPolicyExperiments(
	ctx context.Context, r *adminpb.ListPolicyExperimentsRequest,
) (*adminpb.ListPolicyExperimentsResponse, error) {
	parent, err := policyKind.parseParent("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, r.GetOrderBy(), experimentSchema, r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := s.requireParent(ctx, parent); err != nil {
		return nil, err
	}
	experiments, unreachable, err := readAll(ctx, s, l, listed{parent.In("experiments"), true}, func(e *adminpb.PolicyExperiment, reconciling bool) bool {
		e.Reconciling = reconciling
		return true
	})
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, experiments)
	return &adminpb.ListPolicyExperimentsResponse{PolicyExperiments: out, NextPageToken: next, Unreachable: unreachable}, err
}

// ListOperations implements google.longrunning.Operations. Its parent field is
// called name.
func (s *Server) ListOperations(
	ctx context.Context, r *longrunningpb.ListOperationsRequest,
) (*longrunningpb.ListOperationsResponse, error) {
	if r.GetReturnPartialSuccess() {
		return nil, apierror.Unimplemented("return_partial_success")
	}
	parent, err := locationKind.parseParent("name", r.GetName())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, "", operationSchema, r.GetName())
	if err != nil {
		return nil, err
	}
	operations, unreachable, err := s.readOperations(ctx, l, parent.In("operations"))
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, operations)
	return &longrunningpb.ListOperationsResponse{Operations: out, NextPageToken: next, Unreachable: unreachable}, err
}

// requireParent checks that the policy of a list is there, if it is one policy.
func (s *Server) requireParent(ctx context.Context, parent Key) error {
	if strings.Contains(string(parent)+"/", "/"+Wildcard+"/") {
		return nil
	}
	found, err := s.Summaries(ctx, parent)
	if err != nil {
		return err
	}
	if found[0].Key == "" {
		return apierror.NotFound(parent)
	}
	return nil
}

// listed is what a list reads: a collection, and of it the soft-deleted ones or not.
type listed struct {
	collection Collection
	deleted    bool
}

// readAll reads the resources of a list. keep gets each with whether it is
// reconciling and says whether it belongs to the list. The names of those that cannot be
// read are returned apart: of soft-deleted ones, whose records expire, if they are wanted.
func readAll[M authz.Resource](
	ctx context.Context, s *Server, l listQuery, of listed, keep func(m M, reconciling bool) bool,
) (out []M, unreachable []string, err error) {
	records, err := l.read(ctx, s, of.collection)
	if err != nil {
		return nil, nil, err
	}
	reconcilers := make(map[authz.Location]reconciler)
	for _, r := range records {
		var none M
		m, err := Decode(r, none.ProtoReflect().New().Interface().(M))
		if err != nil {
			if of.deleted || r.ExpireTime.IsZero() {
				unreachable = append(unreachable, string(r.Key))
			}
			continue
		}
		location := r.Key.Location()
		if _, read := reconcilers[location]; !read {
			if reconcilers[location], err = s.newReconciler(ctx, location); err != nil {
				return nil, nil, err
			}
		}
		if keep(m, reconcilers[location].reconciling(r.Key, r.Sequence)) {
			out = append(out, m)
		}
	}
	return out, unreachable, nil
}

// readOperations reads operations and brings each up to date. It returns the names of
// those that cannot be read apart.
func (s *Server) readOperations(ctx context.Context, l listQuery, c Collection) (
	out []*longrunningpb.Operation, unreachable []string, err error,
) {
	records, err := l.read(ctx, s, c)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range records {
		message, err := s.listedOperation(ctx, r)
		switch status.Code(err) {
		case codes.OK:
			out = append(out, message)
		case codes.NotFound: // it was deleted, or expired, since it was listed
		case codes.DataLoss:
			unreachable = append(unreachable, string(r.Key))
		default:
			return nil, nil, err
		}
	}
	return out, unreachable, nil
}

// listedOperation returns an operation of a list, whose record may have no content. One that
// has not ended is read again: it is stored when it is seen to end, and then as a whole.
func (s *Server) listedOperation(ctx context.Context, r Record) (*longrunningpb.Operation, error) {
	op, err := readOperation(r)
	if err != nil {
		return nil, s.damaged(ctx, r.Key, err)
	}
	if op.ended() {
		return op.forCaller()
	}
	return s.GetOperation(ctx, &longrunningpb.GetOperationRequest{Name: string(r.Key)})
}
