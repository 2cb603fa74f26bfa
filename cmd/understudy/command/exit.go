// Package command is what all commands of the binary have in common: exit codes, errors of
// usage that name the fix, flags with their environment variables, and a help in groups.
//
// A command returns an error. One of usage (flags, arguments, files) ends with exit code 2
// and is of no use to try again; all others end with 1, unless they have a code of their
// own. The root command prints the error, so nothing else does.
package command

import (
	"fmt"
)

// The exit codes of the binary.
const (
	// ExitOK is a success, ExitFailure all that went wrong, and ExitUsage a mistake in
	// flags, arguments or files: to run it again without a change makes no sense.
	// ExitFailure is also that of a report whose requirements are not met.
	ExitOK = iota
	ExitFailure
	ExitUsage
	// ExitDenied is that of a check that was answered, and denied.
	ExitDenied

	// ExitTimeout is that of a wait whose time was over: it may go well if there is more of
	// it. It is another command's code too, since no command has both.
	ExitTimeout = ExitDenied

	// ExitNoAnswer is that of a wait that could not find out: the server cannot be reached, or
	// refuses to answer.
	ExitNoAnswer = ExitDenied + 1
)

// ExitError is an error with an exit code of its own. A nil cause prints nothing.
type ExitError struct {
	// Code is one of the codes above.
	Code int
	// Cause is printed, if it is not nil.
	Cause error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Cause.Error()
}

// Unwrap lets errors.Is and errors.As see the cause.
func (e *ExitError) Unwrap() error { return e.Cause }

// Usage is the error of flags or arguments that make no sense.
//
// Its text names the flag, the rule and the fix.
func Usage(cause error) error { return &ExitError{ExitUsage, cause} }
