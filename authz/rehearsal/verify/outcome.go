package verify

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/supervisor"
)

// verified says what became of a decision that was to be decided again. It is a metric
// label.
type verified string

const (
	// verifyDone: both decisions are there and were compared.
	verifyDone verified = "done"
	// verifyShed: there was no room for it off the request path.
	verifyShed verified = "shed"
	// verifyFailed: the second decision could not be made.
	verifyFailed verified = "failed"
)

// verifyReason says why a decision was not verified. It is a metric label.
type verifyReason string

const (
	// reasonNone: it was.
	reasonNone verifyReason = ""
	// reasonUndecided: the first had decided, and the second, though nothing kept it from
	// that, ended with an error. That is a difference as any other.
	reasonUndecided verifyReason = "undecided"
	// reasonDeadline: the second decision was not made in time.
	reasonDeadline verifyReason = "deadline"
	// reasonBodyMemory: there is no memory to read a body that the policy reads.
	reasonBodyMemory verifyReason = "body_memory"
	// reasonTooLarge: what the policy reads of the request, or decides, is too large for the
	// rehearsal process.
	reasonTooLarge verifyReason = "too_large"
	// reasonProcess: the second decision ended the rehearsal process, or others on the same
	// policy did again and again.
	reasonProcess verifyReason = "process"
	// reasonUnavailable: there is no rehearsal process, or the policy does not compile there.
	reasonUnavailable verifyReason = "unavailable"
	// reasonChanged: the policy was replaced meanwhile.
	reasonChanged verifyReason = "changed"
	// reasonPanic: reading the request panicked in this process.
	reasonPanic verifyReason = "panic"

	reasonQueueFull  = verifyReason(background.DropQueueFull)
	reasonQueueBytes = verifyReason(background.DropQueueBytes)
	reasonShutdown   = verifyReason(background.DropShutdown)
)

// verifyReasons :: outcome → its reasons.
var verifyReasons = map[verified][]verifyReason{
	verifyDone: {reasonNone},
	verifyShed: {reasonQueueFull, reasonQueueBytes, reasonShutdown},
	verifyFailed: {
		reasonUndecided, reasonDeadline, reasonBodyMemory, reasonTooLarge, reasonProcess, reasonUnavailable, reasonQueueFull,
		reasonChanged, reasonPanic, reasonShutdown,
	},
}

// outcomeOf returns what became of a verification, by the second decision or why there is
// none.
func outcomeOf(again authz.Decision, err error) (verified, verifyReason) {
	switch {
	case err != nil:
		return verifyFailed, reasonOfVerification(err)
	case again.Failure.Lasting():
		return verifyDone, reasonNone
	case again.Failure == authz.FailureDeadline:
		return verifyFailed, reasonDeadline
	case again.Failure == authz.FailureCanceled:
		return verifyFailed, reasonChanged
	case again.Failure == authz.FailureOverloaded:
		return verifyFailed, reasonBodyMemory
	case again.Failure == authz.FailureError && again.Rule == "":
		// No rule was asked: the decision, or the request, does not cross.
		return verifyFailed, reasonTooLarge
	}
	return verifyFailed, reasonUndecided
}

func reasonOfVerification(err error) verifyReason {
	var crash *supervisor.CrashError
	switch {
	case errors.As(err, &crash):
		return reasonProcess
	case errors.Is(err, errPanicked):
		return reasonPanic
	case errors.Is(err, errTooLarge):
		return reasonTooLarge
	case errors.Is(err, supervisor.ErrQueueFull):
		return reasonQueueFull
	case errors.Is(err, supervisor.ErrShutdown), errors.Is(err, context.Canceled):
		return reasonShutdown
	case errors.Is(err, supervisor.ErrChanged):
		return reasonChanged
	case errors.Is(err, supervisor.ErrUnavailable):
		return reasonUnavailable
	}
	switch authz.Unreadable(err).Failure {
	case authz.FailureOverloaded:
		return reasonBodyMemory
	case authz.FailureDeadline:
		return reasonDeadline
	}
	return reasonUnavailable
}

// verifications counts the decisions that were to be decided again.
type verifications struct {
	all, mismatches metric.Int64Counter
	options         diagnostics.Options
}

// newVerifications makes the counters, visible from the beginning: an alert on a rise needs
// the zero.
func newVerifications(provider metric.MeterProvider) (*verifications, error) {
	meter := provider.Meter("understudy/authz")
	c := &verifications{}
	var errs [2]error
	c.mismatches, errs[0] = meter.Int64Counter("understudy.verification.mismatches",
		metric.WithDescription("Decisions by shortcut that the whole input does not give. Any is a bug."))
	c.all, errs[1] = meter.Int64Counter("understudy.verifications",
		metric.WithDescription("Live decisions that were to be decided again from the whole input, by outcome (done, shed or failed) and, "+
			"of those that were not, by reason."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	c.mismatches.Add(context.Background(), 0)
	for outcome, reasons := range verifyReasons {
		for _, reason := range reasons {
			c.all.Add(context.Background(), 0, diagnostics.Option(&c.options, verifiedLabels{outcome, reason}))
		}
	}
	return c, nil
}

// add counts one.
func (c *verifications) add(outcome verified, reason verifyReason) {
	c.all.Add(context.Background(), 1, diagnostics.Option(&c.options, verifiedLabels{outcome, reason}))
}

// verifiedLabels are the labels of a verification.
type verifiedLabels struct {
	outcome verified
	reason  verifyReason
}

func (l verifiedLabels) Attributes() []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("outcome", string(l.outcome))}
	if l.reason != reasonNone {
		out = append(out, attribute.String("reason", string(l.reason)))
	}
	return out
}
