package admin

import (
	"context"
	"strconv"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Lists are filtered and ordered here and not in the stores: a filter (AIP-160) can name any
// field, and a store never looks into a value. So a list reads its whole collection, at one
// instant. What makes a page is bounded in bytes as well, for clients of gRPC refuse a
// larger message.

// listRequest is what the requests of all lists have in common.
type listRequest interface {
	GetPageSize() int32
	GetPageToken() string
	GetFilter() string
}

// listing is a list as it was asked for, parsed.
type listing struct {
	filter aip.Filter
	order  aip.Order
	size   int
	token  string
	// query is all that a page token is bound to.
	query []string
}

// parseListing parses what is common to lists. orderBy is empty where a list has no
// order_by; more are further parts of the query.
func parseListing(r listRequest, orderBy string, schema aip.Schema, more ...string) (listing, error) {
	l := listing{token: r.GetPageToken(), query: append(more, r.GetFilter(), orderBy)}
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
	return l, nil
}

// maxPageBytes is the size of a page, unless that is of one item: less than the 4 MiB
// that clients of gRPC take if they are not configured otherwise. AIP-158 lets a page be
// smaller than was asked for.
const maxPageBytes = 3 << 20

// page returns the page of the items that the filter matches.
func page[M proto.Message](l listing, items []M) ([]M, string, error) {
	var matching []M
	for _, m := range items {
		if l.filter.Match(m) {
			matching = append(matching, m)
		}
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
	policies, unreachable, err := readAll(ctx, s, parent.In("policies"), r.GetShowDeleted(), func(p *adminpb.Policy, reconciling bool) bool {
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
	experiments, unreachable, err := readAll(ctx, s, parent.In("experiments"), true, func(e *adminpb.PolicyExperiment, reconciling bool) bool {
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
	operations, unreachable, err := s.readOperations(ctx, parent.In("operations"))
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
	stored, err := s.FindPolicy(ctx, parent)
	if err != nil {
		return err
	}
	if !stored.exists() {
		return apierror.NotFound(parent)
	}
	return nil
}

// readAll reads the resources of a collection. keep gets each with whether it is
// reconciling and says whether it belongs to the list. The names of those that cannot be
// read are returned apart: of soft-deleted ones, whose records expire, if they are wanted.
func readAll[M authz.Resource](
	ctx context.Context, s *Server, c Collection, deleted bool, keep func(m M, reconciling bool) bool,
) (out []M, unreachable []string, err error) {
	records, err := s.List(ctx, Query{Collection: c})
	if err != nil {
		return nil, nil, err
	}
	reconcilers := make(map[authz.Location]reconciler)
	for _, r := range records {
		var none M
		m, err := Decode(r, none.ProtoReflect().New().Interface().(M))
		if err != nil {
			if deleted || r.ExpireTime.IsZero() {
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
func (s *Server) readOperations(ctx context.Context, c Collection) (
	out []*longrunningpb.Operation, unreachable []string, err error,
) {
	records, err := s.List(ctx, Query{Collection: c})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range records {
		op, err := readOperation(r)
		if err != nil {
			unreachable = append(unreachable, string(r.Key))
			continue
		}
		message, err := s.current(ctx, op)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, message)
	}
	return out, unreachable, nil
}
