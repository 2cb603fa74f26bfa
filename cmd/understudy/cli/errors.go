package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Describe writes an error for people: that of a call with its violations, one a
// line.
func Describe(err error) string {
	var own *refusal
	st, ok := status.FromError(err)
	if !ok || errors.As(err, &own) {
		return err.Error()
	}
	text := st.Message()
	for _, d := range st.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok && len(bad.FieldViolations) > 1 {
			for _, v := range bad.FieldViolations {
				text += "\n  " + v.Field + ": " + v.Description
			}
		}
	}
	for _, line := range unmetOf(st) {
		text += "\n  " + line
	}
	return text
}

// unanswered turns the error of a call that reached no admin API into one that says
// what to look at. What the API answers has details, and stays as it is.
//
// gRPC's own errors say neither the address nor what to do about it.
func (c *Client) unanswered(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || len(st.Details()) > 0 {
		return err
	}
	switch st.Code() {
	case codes.Unavailable:
		return fmt.Errorf("no answer from the admin API at %s: %s", c.addr, unreachable(st, c.addr, "--admin"))
	case codes.Unimplemented:
		return fmt.Errorf("what answers at %s is no admin API: %s; --admin names it", c.addr, causeOf(st))
	case codes.ResourceExhausted:
		// gRPC's own, of what is far above the limit of the server, or that of this command.
		return fmt.Errorf("it is too large to be sent: a policy with its data has at most 4 MiB, or what the server's --max-policy-size says, up to 64 MiB (%s)", causeOf(st))
	}
	return err
}

// leftOff is the error of a wait for an operation. One that was interrupted leaves
// the operation as it is: stored.
//
// Nobody may think that an interrupt undid the change.
func leftOff(ctx context.Context, operation string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("no longer waiting; the change is stored, and sidecars go on to apply it: %s", operation)
}

// notAsked is the error of a check without an answer.
func notAsked(addr string, err error) error {
	st, _ := status.FromError(err)
	switch st.Code() {
	case codes.Unavailable:
		return fmt.Errorf("no answer from the sidecar at %s: %s", addr, unreachable(st, addr, "--addr"))
	case codes.Unimplemented:
		return fmt.Errorf("what answers at %s is no ext_authz server: --addr names the port that Envoy asks", addr)
	}
	return fmt.Errorf("asking %s: %s: %s", addr, st.Code(), st.Message())
}

// unreachable is why a server does not answer, and the fix.
func unreachable(st *status.Status, addr, flag string) string {
	cause := causeOf(st)
	switch {
	case strings.HasPrefix(cause, "dial "):
		return cause + "; start it with `understudy serve`, or name another with " + flag
	case strings.HasPrefix(addr, HTTPSScheme):
		return cause + "; --ca-cert names who signed its certificate, --client-cert and --client-key what it may ask for"
	default:
		return cause + "; if it speaks TLS, write https:// before the address"
	}
}

// causeOf is the message of a status without what gRPC wraps a network's error in.
func causeOf(st *status.Status) string {
	text := st.Message()
	for _, wrapping := range []string{`connection error: desc = "`, "transport: ", "Error while dialing: ", "authentication handshake failed: "} {
		text = strings.TrimPrefix(text, wrapping)
	}
	return strings.TrimSuffix(text, `"`)
}
