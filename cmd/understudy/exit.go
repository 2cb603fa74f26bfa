package main

import (
	"fmt"
)

// The exit codes of the binary.
const (
	exitOK = iota
	exitFailure
	exitUsage
	// exitDenied is that of a check that was answered, and denied.
	exitDenied
)

// exitError is an error with an exit code of its own. A nil cause prints nothing.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// usage is the error of flags or arguments that make no sense.
func usage(cause error) error { return &exitError{exitUsage, cause} }
