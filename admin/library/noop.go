package library

import (
	"context"
	"log/slog"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// NoOp says whether a lock without rules may take the place of a policy that has some.
// All requests for the policy get the default decision from then on.
type NoOp bool

// Without AllowNoOp such a change is FAILED_PRECONDITION.
const (
	RefuseNoOp NoOp = false
	AllowNoOp  NoOp = true
)

// noOpCheck looks at the replacements of one change for those that end what a policy
// enforces: they are refused or logged, so that none goes unnoticed.
type noOpCheck struct {
	allowed NoOp
	// ended are the policies that lose their rules.
	ended []admin.Key
}

// reset forgets an attempt that lost a race.
func (n *noOpCheck) reset() { n.ended = nil }

// replacement looks at content that a policy, if it is live, is to get. One that cannot be
// read is taken for one with rules.
func (n *noOpCheck) replacement(stored admin.StoredPolicy, content *adminpb.Policy) error {
	ruled := stored.Damage != nil || len(stored.Policy.GetRules()) > 0
	if !stored.Live() || !ruled || len(content.GetRules()) > 0 {
		return nil
	}
	n.ended = append(n.ended, stored.Record.Key)
	if n.allowed {
		return nil
	}
	return apierror.Precondition(stored.Record.Key, apierror.ReasonNoOpLock, "It has rules, and its new revision has none: all requests would get the default decision.")
}

// log logs what came of the change.
func (n *noOpCheck) log(ctx context.Context, log *slog.Logger, err error) {
	for _, name := range n.ended {
		switch {
		case err == nil:
			log.WarnContext(ctx, "a revision without rules has replaced one with rules, as the caller asked for: all requests get the default decision",
				"policy", string(name))
		case !bool(n.allowed):
			log.WarnContext(ctx, "a revision without rules was refused: it would have replaced one with rules", "policy", string(name))
		}
	}
}

// IsNoOp reports whether an error says that a revision without rules was refused.
func IsNoOp(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Reason == string(apierror.ReasonNoOpLock) {
			return true
		}
	}
	return false
}
