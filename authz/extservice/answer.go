package extservice

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

// Outcome is how a call of an external service ended. Its values are metric labels.
type Outcome string

// The ways in which a call ends.
const (
	// OutcomePass: the service lets the request pass.
	OutcomePass Outcome = "pass"
	// OutcomeDeny: the service denies and says why.
	OutcomeDeny Outcome = "deny"
	// OutcomeSilent: the service denies without a message that can be read.
	OutcomeSilent Outcome = "deny_without_message"
	// OutcomeStatus: the service answered with another status.
	OutcomeStatus Outcome = "status"
	// OutcomeRedirect: the service sent us elsewhere, where we do not go.
	OutcomeRedirect Outcome = "redirect"
	// OutcomeTimeout: the time ran out.
	OutcomeTimeout Outcome = "timeout"
	// OutcomeCanceled: who asked us went away.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeAddress: the address is refused.
	OutcomeAddress Outcome = "address_refused"
	// OutcomeConnect: there is no connection, or no such name.
	OutcomeConnect Outcome = "connect"
	// OutcomeTLS: the service is not who it should be, or speaks no TLS.
	OutcomeTLS Outcome = "tls"
	// OutcomeBroken: the connection broke, or what came is no HTTP.
	OutcomeBroken Outcome = "broken"
	// OutcomeToken: the token for the service cannot be read, or would go in the clear.
	OutcomeToken Outcome = "token"
	// OutcomeBusy: too many calls are under way.
	OutcomeBusy Outcome = "busy"
	// OutcomeNotCalled: no call may be made. It is never counted.
	OutcomeNotCalled Outcome = "not_called"
)

// Denies reports whether the service denied. Nothing overrules that.
func (o Outcome) Denies() bool { return o == OutcomeDeny || o == OutcomeSilent }

// fails reports whether the service gave no decision.
func (o Outcome) fails() bool { return o != OutcomePass && !o.Denies() }

// cause says more of an outcome that the server's configuration may be the cause of.
func (o Outcome) cause() string {
	switch o {
	case OutcomeToken:
		return ": the token for its host cannot be read, or is not allowed to go over http"
	case OutcomeAddress:
		return ": its name leads to this machine, its link, a group or instance metadata, which is not allowed"
	}
	return ""
}

// Answer is what a service said.
type Answer struct {
	Outcome Outcome
	// Message says why it denies, on one line of at most 1024 bytes; empty for any other
	// outcome.
	Message string
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
func readAnswer(response *http.Response) Answer {
	switch status := response.StatusCode; {
	case status == http.StatusNoContent:
		return Answer{Outcome: OutcomePass}
	case status == http.StatusForbidden:
		return readDenial(response.Body)
	case status >= 300 && status < 400:
		return Answer{Outcome: OutcomeRedirect}
	}
	return Answer{Outcome: OutcomeStatus}
}

func readDenial(body io.Reader) Answer {
	silent := Answer{OutcomeSilent, silentDenial}
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil || len(text) > maxAnswer {
		return silent
	}
	if message, ok := parseDenial(text); ok {
		return Answer{OutcomeDeny, message}
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

// outcomeOf returns why there is no answer.
func outcomeOf(err error) Outcome {
	var (
		timeout net.Error
		network *net.OpError
		name    *net.DNSError
	)
	switch {
	case errors.Is(err, errAddressRefused):
		return OutcomeAddress
	case errors.Is(err, context.Canceled):
		return OutcomeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return OutcomeTimeout
	case ofTLS(err):
		return OutcomeTLS
	case errors.As(err, &name), errors.As(err, &network) && network.Op == "dial":
		return OutcomeConnect
	}
	return OutcomeBroken
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
