package extauthz

import (
	"net/http"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz"
)

// Observe makes a Server decide as always and enforce nothing: every answer is OK
// without an edit, also where it would be a denial, a 400, or the answer to a panic. It
// wins over OnFailureError. So an authorizer that enforces can be watched from beside
// it, before it is replaced.
func Observe() Option { return func(s *Server) { s.observe = true } }

// What an observer's answer tells of the decision, in the dynamic metadata.
const (
	// metadataObserved is the only key of an observer's metadata. Envoy puts the metadata
	// of every ext_authz filter under one name, and of two filters the later replaces the
	// keys of the earlier: so nothing of an observer may have a name that another
	// authorizer uses, and nothing of the policy's own metadata is sent.
	metadataObserved = "observed"
	metadataDecision = "decision"
)

// headerObserved is what an observer's answer over HTTP tells: ALLOW or DENY.
const headerObserved = "X-Understudy-Observed"

// observed returns the answer of an observer.
func observed(id string, d authz.Decision) *authv3.CheckResponse {
	fields := map[string]*structpb.Value{
		metadataDecision:   structpb.NewStringValue(d.Verdict.String()),
		metadataDecisionID: structpb.NewStringValue(id),
	}
	if d.Failure != "" {
		fields[metadataFailure] = structpb.NewStringValue(string(d.Failure))
	}
	if d.Reason != "" {
		fields[metadataReason] = structpb.NewStringValue(validText(d.Reason))
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: int32(codes.OK)},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			metadataObserved: structpb.NewStructValue(&structpb.Struct{Fields: fields}),
		}},
	}
}

// observed returns the answer of an observer over HTTP to what would have been a.
func (a *answer) observed() *answer {
	out := &answer{allow: true, status: http.StatusOK, header: http.Header{}}
	verdict := authz.Deny
	if a.allow {
		verdict = authz.Allow
	}
	out.header.Set(headerObserved, verdict.String())
	for _, name := range []string{headerDecisionID, headerFailure} {
		if value := a.header.Get(name); value != "" {
			out.header.Set(name, value)
		}
	}
	return out
}
