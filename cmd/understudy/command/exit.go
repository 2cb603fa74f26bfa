// Package command is what all commands of the binary have in common: exit codes, errors of
// usage that name the fix, flags with their environment variables, and a help in groups.
package command

import (
	"fmt"
)

// The exit codes of the binary.
const (
	ExitOK = iota
	ExitFailure
	ExitUsage
	// ExitDenied is that of a check that was answered, and denied.
	ExitDenied
)

// ExitError is an error with an exit code of its own. A nil cause prints nothing.
type ExitError struct {
	Code  int
	Cause error
}

func (e *ExitError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Cause.Error()
}

func (e *ExitError) Unwrap() error { return e.Cause }

// Usage is the error of flags or arguments that make no sense.
func Usage(cause error) error { return &ExitError{ExitUsage, cause} }
