package authz

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
)

const (
	// heartbeatEvery is the time between two reports of a node that has no news.
	heartbeatEvery = 2 * time.Second
	// maxNodeErrors bounds the resources that a node's error names.
	maxNodeErrors = 10
	// maxCause bounds the text of one failure in a node's error, in bytes.
	maxCause = 500
)

// ReasonNotApplied is the reason in the ErrorInfo of a node that could not apply a
// resource. Its metadata are resource, the name, and sequence, the change.
const ReasonNotApplied = "POLICY_NOT_APPLIED"

// ErrorDomain is the domain of every ErrorInfo of this project (AIP-193).
const ErrorDomain = "understudy.internal"

// failure is what a node could not apply of a policy, and since which change.
type failure struct {
	sequence int64
	refusals []refusal
}

// noteRefusals keeps what an update could not apply, until a later change of the
// same policy can be.
func (s *Sidecar) noteRefusals(update Update, refusals map[PolicyName][]refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range update.Policies {
		delete(s.failures, name)
	}
	for name, refused := range refusals {
		s.failures[name] = failure{update.Cursor.Sequence, refused}
		for _, r := range refused {
			s.metrics.notApplied()
			s.log.Error("a policy could not be applied; the last good one stays",
				"resource", r.resource, "sequence", update.Cursor.Sequence, "error", r.err)
		}
	}
}

// heartbeats reports the node every heartbeatEvery and after each change.
func (s *Sidecar) heartbeats(ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		snap := s.current.Load()
		head, err := s.config.Feed.Heartbeat(ctx, s.node(snap))
		if err != nil && ctx.Err() == nil {
			s.log.Debug("heartbeat failed", "error", err)
		}
		if err == nil {
			s.compareHead(snap, head)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.beat:
		case <-ticker.C:
		}
	}
}

// compareHead has everything loaded again if the store has gone back behind what
// this node had applied before it asked: it failed over, or an older copy was
// restored.
func (s *Sidecar) compareHead(snap *snapshot, head Cursor) {
	if snap == nil || head == snap.cursor || head.Sequence > snap.cursor.Sequence {
		return
	}
	s.log.Warn("the store has lost changes; loading what it has now",
		"sequence", snap.cursor.Sequence, "head", head.Sequence)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reload != nil {
		s.reload()
	}
}

func (s *Sidecar) askForHeartbeat() {
	select {
	case s.beat <- struct{}{}:
	default:
	}
}

// node returns what the sidecar reports of itself.
func (s *Sidecar) node(snap *snapshot) *adminpb.Node {
	n := &adminpb.Node{Name: s.nodeName(), CreateTime: s.startTime()}
	if snap != nil {
		n.AppliedSequence = snap.cursor.Sequence
		for name := range snap.policies {
			n.Policies = append(n.Policies, string(name))
		}
		slices.Sort(n.Policies)
	}
	n.Error = s.nodeError()
	return n
}

// nodeError returns why the node does not enforce everything, the latest failure
// first, or nil.
func (s *Sidecar) nodeError() *statuspb.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) == 0 {
		return nil
	}
	var all []failure
	for _, f := range s.failures {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b failure) int { return cmp.Compare(b.sequence, a.sequence) })
	st := status.New(codes.FailedPrecondition, cause(all[0].refusals[0]))
	for _, f := range all[:min(len(all), maxNodeErrors)] {
		for _, r := range f.refusals {
			detailed, err := st.WithDetails(&errdetails.ErrorInfo{
				Reason: ReasonNotApplied, Domain: ErrorDomain,
				Metadata: map[string]string{"resource": r.resource, "sequence": strconv.FormatInt(f.sequence, 10)},
			})
			if err == nil {
				st = detailed
			}
		}
	}
	return st.Proto()
}

func cause(r refusal) string {
	text := fmt.Sprintf("%s: %v", r.resource, r.err)
	return clean(text[:min(len(text), maxCause)])
}
