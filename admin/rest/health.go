package rest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
)

// Anyone who has no credentials may ask for health, so a call of it costs as little as the refusal
// of another one: it is answered here, and the server of gRPC, which holds much more for each
// call, never sees it.

// maxProbe bounds the message of a probe, in bytes: the name of a service.
const maxProbe = 4 << 10

// isProbe reports whether a request is a call of grpc.health.v1.Health/Check as probes send it.
// A compressed message becomes as large as the largest policy, however small it was sent: it is
// for the server of gRPC, like every other content type.
func isProbe(r *http.Request) bool {
	coding, media := r.Header.Get("Grpc-Encoding"), r.Header.Get("Content-Type")
	return isGRPC(r) && r.Method == http.MethodPost && r.URL.Path == grpc_health_v1.Health_Check_FullMethodName &&
		(coding == "" || coding == "identity") && (media == "application/grpc" || media == "application/grpc+proto")
}

// probed answers probes, and leaves all other calls to next.
func (a *API) probed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isProbe(r) {
			next.ServeHTTP(w, r)
			return
		}
		response, err := a.probe(w, r)
		if err != nil {
			writeGRPCError(w, withInfo(err))
			return
		}
		writeGRPCMessage(w, response)
	})
}

// probe is the answer to a probe.
func (a *API) probe(w http.ResponseWriter, r *http.Request) (*grpc_health_v1.HealthCheckResponse, error) {
	body, err := ReadBody(w, r, maxProbe)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, bodyTooLarge(maxProbe)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, bodyTooSlow()
	case err != nil:
		return nil, malformedProbe
	}
	request, err := probeOf(body)
	if err != nil {
		return nil, err
	}
	return namedHealth{a.health}.Check(r.Context(), request)
}

// malformedProbe is the error of a body that is not the one message of a probe.
var malformedProbe = apierror.Invalid(apierror.ReasonInvalidField, "request",
	"The body is not one message of grpc.health.v1.HealthCheckRequest that is not compressed.")

// prefix is the size of what is before a message of gRPC, in bytes: whether it is compressed,
// and its length (gRPC over HTTP/2, Length-Prefixed-Message).
const prefix = 5

// probeOf reads the message of a probe.
func probeOf(body []byte) (*grpc_health_v1.HealthCheckRequest, error) {
	request := &grpc_health_v1.HealthCheckRequest{}
	if len(body) < prefix || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:prefix])) != uint64(len(body)-prefix) ||
		proto.Unmarshal(body[prefix:], request) != nil {
		return nil, malformedProbe
	}
	return request, nil
}

// writeGRPCMessage sends the one message of an answer, and OK.
func writeGRPCMessage(w http.ResponseWriter, m proto.Message) {
	message, err := proto.Marshal(m)
	if err != nil {
		writeGRPCError(w, apierror.Internal())
		return
	}
	body := binary.BigEndian.AppendUint32(make([]byte, 1, prefix+len(message)), uint32(len(message)))
	w.Header().Set("Content-Type", "application/grpc")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(body, message...))
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// namedHealth is the health service, whose NOT_FOUND names the service that was asked
// for: all errors of the port have their details.
type namedHealth struct{ *health.Server }

// Check implements grpc.health.v1.Health.
func (h namedHealth) Check(
	ctx context.Context, r *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	response, err := h.Server.Check(ctx, r)
	if status.Code(err) == codes.NotFound {
		return nil, unknownService(r.GetService())
	}
	return response, err
}

// unknownService is NOT_FOUND of a service whose health was asked for, as the protocol of
// gRPC's health checks has it.
func unknownService(name string) error {
	name = apierror.Shown(name)
	return apierror.New(codes.NotFound, apierror.ReasonNotFound,
		fmt.Sprintf("The server has no service '%s'. An empty name asks for the server itself.", name),
		apierror.Facts{"resource": name}, &errdetails.ResourceInfo{ResourceType: "service", ResourceName: name})
}

// Drain makes the health service answer NOT_SERVING from now on, so that clients
// go elsewhere before the server closes.
func (a *API) Drain() { a.health.Shutdown() }
