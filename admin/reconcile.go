package admin

import (
	"context"

	"understudy/authz"
)

// reconciler tells which resources of a location are not yet enforced everywhere,
// from one reading of what its nodes report.
type reconciler struct{ nodes []NodeReport }

func (s *Server) newReconciler(ctx context.Context, location authz.Location) (reconciler, error) {
	nodes, err := s.store.Nodes(ctx, location)
	if err != nil {
		return reconciler{}, s.storeFailed(ctx, "reading the nodes of "+string(location), err)
	}
	return reconciler{nodes}, nil
}

// reconciling reports whether some live node has not applied the change of a
// resource with this sequence, or could not (AIP-128).
func (r reconciler) reconciling(name Key, sequence int64) bool {
	for _, n := range r.nodes {
		if n.Age >= nodeLifetime {
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
	r, err := s.newReconciler(ctx, name.location())
	if err != nil {
		return err
	}
	*field = r.reconciling(name, sequence)
	return nil
}
