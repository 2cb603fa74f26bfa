package extauthz

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz"
)

// Observe makes a Server decide as always and enforce nothing: every response is OK
// without an edit, also where it would be a denial, a 400, or that of a panic. It
// overrides OnFailureError. So a Server can be compared with the authorizer that enforces
// before it replaces it.
func Observe() Option { return func(s *Server) { s.observe = true } }

// Observes reports whether the Server enforces nothing.
func (s *Server) Observes() bool { return s.observe }

// What an observer's response says of the decision, in its dynamic metadata.
const (
	// metadataObserved is the only key of an observer's metadata. Envoy puts the metadata
	// of every ext_authz filter under one name, and of two filters the later replaces the
	// keys of the earlier: so nothing of an observer may have a name that another
	// authorizer uses, and nothing of the policy's own metadata is sent.
	metadataObserved = "observed"
	metadataDecision = "decision"
)

// observed returns the response of an observer.
func observed(id string, d authz.Decision) *authv3.CheckResponse {
	fields := map[string]*structpb.Value{
		metadataDecision:   structpb.NewStringValue(d.Effect.String()),
		MetadataDecisionID: structpb.NewStringValue(id),
	}
	if d.Failure != "" {
		fields[MetadataFailure] = structpb.NewStringValue(string(d.Failure))
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
