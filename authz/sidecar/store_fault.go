package sidecar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// storeFault is a way in which a store does not have what is enforced here.
type storeFault struct {
	// policies returns those of a snapshot that have the fault, in order.
	policies func(*snapshot) []authz.PolicyName
	// reason is that of the ErrorInfo, and node the message of the node with the number of policies
	// and their IDs.
	reason, node string
	// begins and ends are for the log.
	begins, ends string
}

// storeFaults are all of them.
var storeFaults = []storeFault{
	{
		policies: (*snapshot).missing, reason: authz.ReasonMissing,
		node:   "the store has lost policies that this node enforces (%d): %s",
		begins: "the store has lost policies; the last ones decide on. " + MissingHelp,
		ends:   "the store has all policies again, or their loss was accepted",
	},
	{
		policies: (*snapshot).stale, reason: authz.ReasonStale,
		node:   "the store has gone back: it has older versions of policies than this node enforces (%d): %s",
		begins: "the store has gone back: it has older versions of policies than were applied here; the newer ones decide on. " + StaleHelp,
		ends:   "the store has no older version of a policy any more",
	},
}

// logFault logs when policies get a fault, and when none has it any more.
func (s *Sidecar) logFault(f storeFault, before, now *snapshot) {
	has := f.policies(now)
	var had []authz.PolicyName
	if before != nil {
		had = f.policies(before)
	}
	switch {
	case len(has) == 0 && len(had) > 0:
		s.log.Info(f.ends)
	case !slices.Equal(has, had) && len(has) > 0:
		s.log.Error(f.begins, "count", len(has), "policies", joinIDs(has), "location", string(s.config.Location))
	}
}

// with adds to the error of a node, which may be nil, the policies of a snapshot that have the
// fault, at most maxNodeErrors of them.
func (f storeFault) with(failure *statuspb.Status, snap *snapshot) *statuspb.Status {
	names := f.policies(snap)
	if len(names) == 0 {
		return failure
	}
	var details []protoadapt.MessageV1
	for _, name := range names[:min(len(names), maxNodeErrors)] {
		details = append(details, &errdetails.ErrorInfo{
			Reason: f.reason, Domain: adminpb.ErrorDomain,
			Metadata: map[string]string{"resource": string(name), "sequence": strconv.FormatInt(snap.sequenceOf(name), 10)},
		})
	}
	return withLoss(failure, fmt.Sprintf(f.node, len(names), joinIDs(names)), details...)
}

// with adds to the error of a node, which may be nil, that the store has gone back, if it has.
func (w watermarks) with(failure *statuspb.Status) *statuspb.Status {
	if !w.wentBack() {
		return failure
	}
	return withLoss(failure, "the store has gone back: sidecars have seen later changes than it has", &errdetails.ErrorInfo{
		Reason: authz.ReasonWentBack, Domain: adminpb.ErrorDomain,
		Metadata: map[string]string{"watermark": strconv.FormatInt(w.known, 10), "stored": strconv.FormatInt(w.stored, 10)},
	})
}

// withLoss adds to the error of a node, which may be nil, what the store has lost.
func withLoss(failure *statuspb.Status, text string, details ...protoadapt.MessageV1) *statuspb.Status {
	st := status.New(codes.DataLoss, text)
	if failure != nil {
		both := proto.CloneOf(failure)
		both.Message += "; " + text
		st = status.FromProto(both)
	}
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return st.Proto()
}

// joinIDs returns the IDs of at most maxNodeErrors policies.
func joinIDs(names []authz.PolicyName) string {
	var ids []string
	for _, name := range names[:min(len(names), maxNodeErrors)] {
		ids = append(ids, string(name.ID()))
	}
	if len(names) > maxNodeErrors {
		ids = append(ids, "…")
	}
	return strings.Join(ids, ", ")
}
