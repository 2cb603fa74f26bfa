package sidecar

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
	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/evidence/publisher"
)

const (
	// maxNodeErrors bounds the resources that a node's error names.
	maxNodeErrors = 10
	// maxCause bounds the text of one failure in a node's error, in bytes.
	maxCause = 500
)

// nodeReporter is what a node reports with to the store.
type nodeReporter struct {
	started time.Time
	// beat asks for a heartbeat at once.
	beat chan struct{}
	// publisher brings what is counted of experiments to the store, at the intervals of this node.
	publisher *publisher.Publisher
	intervals publisher.Intervals
}

// heartbeats reports the node at its interval and after each change.
func (s *Sidecar) heartbeats(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(publisher.Jittered(s.intervals.Report()))
		snap := s.current.Load()
		head, err := s.config.Feed.Heartbeat(ctx, s.node(snap))
		if err != nil && ctx.Err() == nil {
			s.log.Debug("heartbeat failed", "error", err)
		}
		if err == nil {
			if s.store.heard() {
				s.log.Info(answersAgain)
			}
			s.compareHead(snap, head.Cursor)
			s.compareWatermark(head)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.beat:
		case <-timer.C:
		}
	}
}

// compareHead has everything loaded again if the store has gone back behind what
// this node had applied before it asked: it failed over, or an older copy was
// restored.
func (s *Sidecar) compareHead(snap *snapshot, head authz.Cursor) {
	if snap == nil || head == snap.cursor || head.Sequence > snap.cursor.Sequence {
		return
	}
	s.log.Warn("the store has lost changes; loading what it has now",
		"sequence", snap.cursor.Sequence, "head", head.Sequence)
	s.store.loadAgain()
}

func (s *Sidecar) askForHeartbeat() {
	select {
	case s.beat <- struct{}{}:
	default:
	}
}

// node returns what the sidecar reports of itself.
func (s *Sidecar) node(snap *snapshot) *adminpb.Node {
	marks := s.store.watermarks()
	n := &adminpb.Node{Name: s.nodeName(), CreateTime: s.startTime(), Observing: s.config.Observing, DefaultAllow: s.config.Default == authz.Allow, Watermark: marks.known}
	if snap != nil {
		n.AppliedSequence = snap.applied()
		for name := range snap.policies {
			n.Policies = append(n.Policies, string(name))
		}
		slices.Sort(n.Policies)
		if s.config.Policy != "" {
			n.DefaultPolicy = string(s.config.Location.Policy(s.config.Policy))
		}
		n.Error = snap.nodeError()
		for _, f := range storeFaults {
			n.Error = f.with(n.Error, snap)
		}
	}
	n.Error = marks.with(n.Error)
	return n
}

// nodeError returns what the snapshot does not enforce of its policies, the latest
// change first, or nil.
func (s *snapshot) nodeError() *statuspb.Status {
	failures := s.failures()
	if len(failures) == 0 {
		return nil
	}
	st := status.New(codes.FailedPrecondition, cause(failures[0]))
	for _, r := range failures[:min(len(failures), maxNodeErrors)] {
		st = withFailure(st, r)
	}
	return st.Proto()
}

// failures returns what the snapshot could not apply, the latest change first.
func (s *snapshot) failures() []failure {
	var out []failure
	for _, e := range s.policies {
		out = append(out, e.failures...)
	}
	slices.SortFunc(out, func(a, b failure) int {
		return cmp.Or(cmp.Compare(b.sequence, a.sequence), cmp.Compare(a.resource, b.resource))
	})
	return out
}

func withFailure(st *status.Status, f failure) *status.Status {
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{
		Reason: authz.ReasonNotApplied, Domain: adminpb.ErrorDomain,
		Metadata: map[string]string{"resource": f.resource, "sequence": strconv.FormatInt(f.sequence, 10)},
	})
	if err != nil {
		return st
	}
	return detailed
}

func cause(f failure) string {
	text := fmt.Sprintf("%s: %v", f.resource, f.err)
	return diagnostics.Clean(text[:min(len(text), maxCause)])
}
