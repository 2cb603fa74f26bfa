package admin

import (
	"context"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// GetNode implements AIP-131. A node is known for an hour after its last report.
func (s *Server) GetNode(ctx context.Context, r *adminpb.GetNodeRequest) (*adminpb.Node, error) {
	name, err := nodeKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	nodes, err := s.ReadNodes(ctx, name.Location())
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Name == string(name) {
			return n, nil
		}
	}
	return nil, apierror.NotFound(name)
}

// ListNodes implements AIP-132. Nodes that have not reported lately are listed too: their
// heartbeat_time shows it.
func (s *Server) ListNodes(ctx context.Context, r *adminpb.ListNodesRequest) (*adminpb.ListNodesResponse, error) {
	parent, err := locationKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, "", nodeSchema, r.GetParent())
	if err != nil {
		return nil, err
	}
	nodes, err := s.ReadNodes(ctx, parent.Location())
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, nodes)
	return &adminpb.ListNodesResponse{Nodes: out, NextPageToken: next}, err
}

// ReadNodes returns the nodes of a location as they last reported, in name order.
func (s *Server) ReadNodes(ctx context.Context, location authz.Location) ([]*adminpb.Node, error) {
	reports, err := s.nodeReports(ctx, location)
	if err != nil {
		return nil, err
	}
	nodes := make([]*adminpb.Node, len(reports))
	for i, report := range reports {
		nodes[i] = report.Node
	}
	return nodes, nil
}

// nodeReports returns what the nodes of a location last reported, in name order.
func (s *Server) nodeReports(ctx context.Context, location authz.Location) ([]NodeReport, error) {
	reports, err := s.store.Nodes(ctx, location)
	if err != nil {
		return nil, s.storeFailed(ctx, "reading the nodes of "+string(location), err)
	}
	return reports, nil
}

// reconciler knows which resources of a location are not yet enforced everywhere,
// from one reading of what its nodes report.
type reconciler struct{ nodes []NodeReport }

// newReconciler reads the nodes of a location once, for as many resources as a list has.
func (s *Server) newReconciler(ctx context.Context, location authz.Location) (reconciler, error) {
	nodes, err := s.nodeReports(ctx, location)
	return reconciler{nodes}, err
}

// reconciling reports whether some live node has not applied the change of a
// resource with this sequence, or could not (AIP-128).
func (r reconciler) reconciling(name Key, sequence int64) bool {
	for _, n := range r.nodes {
		if !n.Alive() {
			continue
		}
		if n.Node.AppliedSequence < sequence || failedToApply(n.Node, name, sequence) {
			return true
		}
	}
	return false
}

// markReconciling sets the field of a resource that was read.
func (s *Server) markReconciling(ctx context.Context, name Key, sequence int64, field *bool) error {
	r, err := s.newReconciler(ctx, name.Location())
	if err != nil {
		return err
	}
	*field = r.reconciling(name, sequence)
	return nil
}
