package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// errorLogEvery is the least time between two logged errors of the SDK: a
// collector that is down fails every batch.
const errorLogEvery = 10 * time.Second

// errorLog logs errors of the SDK, but not each of a long series.
type errorLog struct {
	// log gets one error in errorLogEvery.
	log *slog.Logger
	// turn holds the permission to log.
	turn chan struct{}
}

// newErrorLog returns a handler that may log at once.
func newErrorLog(log *slog.Logger) *errorLog {
	e := &errorLog{log, make(chan struct{}, 1)}
	e.turn <- struct{}{}
	return e
}

// Handle implements otel.ErrorHandler.
func (e *errorLog) Handle(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	select {
	case <-e.turn:
		e.log.Warn("telemetry failed", "error", err)
		time.AfterFunc(errorLogEvery, func() { e.turn <- struct{}{} })
	default:
	}
}
