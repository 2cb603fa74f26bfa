package admin

import (
	"context"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// GetNode implements AIP-131. A node is known for an hour after its last report.
func (s *Server) GetNode(ctx context.Context, r *adminpb.GetNodeRequest) (*adminpb.Node, error) {
	name, err := nodeKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	nodes, err := s.readNodes(ctx, name.location())
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Name == string(name) {
			return n, nil
		}
	}
	return nil, notFound(name)
}

// ListNodes implements AIP-132. It lists also those that have not reported of late:
// their heartbeat_time tells.
func (s *Server) ListNodes(ctx context.Context, r *adminpb.ListNodesRequest) (*adminpb.ListNodesResponse, error) {
	parent, err := locationKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, "", nodeSchema, r.GetParent())
	if err != nil {
		return nil, err
	}
	nodes, err := s.readNodes(ctx, parent.location())
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, nodes)
	return &adminpb.ListNodesResponse{Nodes: out, NextPageToken: next}, err
}

func (s *Server) readNodes(ctx context.Context, location authz.Location) ([]*adminpb.Node, error) {
	reports, err := s.store.Nodes(ctx, location)
	if err != nil {
		return nil, s.storeFailed(ctx, "reading the nodes of "+string(location), err)
	}
	nodes := make([]*adminpb.Node, len(reports))
	for i, report := range reports {
		nodes[i] = report.Node
	}
	return nodes, nil
}
