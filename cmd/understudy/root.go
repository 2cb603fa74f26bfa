package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

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

// run is the whole program but for the process: what main calls and tests start.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailure
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if exit == nil || exit.cause != nil {
		fmt.Fprintln(stderr, "understudy:", describe(err))
	}
	return code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "understudy",
		Short: "Rehearse an authorization policy on live traffic before it goes live",
		Long: `Understudy is an external-authorization sidecar for Envoy. It decides every
request by the live policy and, in shadow, by each experiment that is being
previewed; it records where they differ; and a commit puts an experiment live on
every sidecar at once.

Start with:
  understudy demo            see all of it in ten seconds
  understudy serve           run the sidecar and the admin API on this machine
  understudy check           send one request and see the decision
  understudy import          make a policy of an OPA bundle or folder
  understudy test            run the tests of a policy`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w (see `%s --help`)", err, c.CommandPath()))
	})
	root.AddCommand(newServe(), newCheck(), newDemo(), newImport(), newTest(), newLock())
	root.AddCommand(clientCommands()...)
	root.AddCommand(stageCommands()...)
	return root
}
