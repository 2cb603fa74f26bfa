package authz

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"understudy/authz/diagnostics"
)

// callOutcome is how a call of an external service ended. Its values are metric labels.
type callOutcome string

// The ways in which a call ends.
const (
	// callPass: the service lets the request pass.
	callPass callOutcome = "pass"
	// callDeny: the service denies and says why.
	callDeny callOutcome = "deny"
	// callSilent: the service denies without a message that can be read.
	callSilent callOutcome = "deny_without_message"
	// callStatus: the service answered with another status.
	callStatus callOutcome = "status"
	// callRedirect: the service sent us elsewhere, where we do not go.
	callRedirect callOutcome = "redirect"
	// callTimeout: the time ran out.
	callTimeout callOutcome = "timeout"
	// callCanceled: who asked us went away.
	callCanceled callOutcome = "canceled"
	// callAddress: the address is refused.
	callAddress callOutcome = "address_refused"
	// callConnect: there is no connection, or no such name.
	callConnect callOutcome = "connect"
	// callTLS: the service is not who it should be, or speaks no TLS.
	callTLS callOutcome = "tls"
	// callBroken: the connection broke, or what came is no HTTP.
	callBroken callOutcome = "broken"
	// callToken: the token for the service cannot be read, or would go in the clear.
	callToken callOutcome = "token"
	// callBusy: too many calls are under way.
	callBusy callOutcome = "busy"
	// callNotCalled: no call may be made. It is never counted.
	callNotCalled callOutcome = "not_called"
)

// denies reports whether the service denied. Nothing overrules that.
func (o callOutcome) denies() bool { return o == callDeny || o == callSilent }

// fails reports whether the service gave no decision.
func (o callOutcome) fails() bool { return o != callPass && !o.denies() }

// cause says more of an outcome that the server's configuration may be to blame for.
func (o callOutcome) cause() string {
	switch o {
	case callToken:
		return ": the token for its host cannot be read, or is not allowed to go over http"
	case callAddress:
		return ": its name leads to this machine, its link, a group or instance metadata, which is not allowed"
	}
	return ""
}

// answer is what a service said.
type answer struct {
	outcome callOutcome
	// message says why it denies, cleaned and bounded.
	message string
}

const (
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 64 << 10
	// maxMessage bounds the message of a denial, in bytes.
	maxMessage = 1024
	// silentDenial is the message of a denial that has none.
	silentDenial = "The external service denied the request."
)

// readAnswer reads the answer of a service: 204 passes, 403 denies, whatever its body
// is, and anything else is an error (Blazar, decision on allow_on_error).
func readAnswer(response *http.Response) answer {
	switch status := response.StatusCode; {
	case status == http.StatusNoContent:
		return answer{outcome: callPass}
	case status == http.StatusForbidden:
		return readDenial(response.Body)
	case status >= 300 && status < 400:
		return answer{outcome: callRedirect}
	}
	return answer{outcome: callStatus}
}

func readDenial(body io.Reader) answer {
	silent := answer{callSilent, silentDenial}
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil || len(text) > maxAnswer {
		return silent
	}
	if message, ok := parseDenial(text); ok {
		return answer{callDeny, message}
	}
	return silent
}

// parseDenial returns the message of a denial's body; false if it has none. Nothing
// else of the body is ever shown.
func parseDenial(body []byte) (string, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return "", false
	}
	var message string
	if json.Unmarshal(object["message"], &message) != nil {
		return "", false
	}
	// Lines and runs of spaces become one line of words.
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	return diagnostics.Clean(message), message != ""
}

// callOutcomeOf returns why there is no answer.
func callOutcomeOf(err error) callOutcome {
	var (
		timeout net.Error
		network *net.OpError
		name    *net.DNSError
	)
	switch {
	case errors.Is(err, errAddressRefused):
		return callAddress
	case errors.Is(err, context.Canceled):
		return callCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return callTimeout
	case ofTLS(err):
		return callTLS
	case errors.As(err, &name), errors.As(err, &network) && network.Op == "dial":
		return callConnect
	}
	return callBroken
}

// ofTLS reports whether an error is that of a handshake: ours, the other side's alert,
// or an answer without TLS.
func ofTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       *net.OpError
	)
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error")
}
