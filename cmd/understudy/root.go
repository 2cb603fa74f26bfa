package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(stderr, "understudy:", onTerminal(describe(err)))
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

'understudy demo' shows all of it in ten seconds.`,
		Version:                    version,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(groupedUsage(connectionFlags))
	addGroup(root, "run", "Run it:", newDemo(), newServe(), newCheck(), newHealth(), newRestore())
	addGroup(root, "change", "Policies and experiments:", clientCommands()...)
	addGroup(root, "stages", "Stages, revisions and sidecars:", stageCommands()...)
	addGroup(root, "files", "Policies in files:", newImport(), newTest(), newLock(), newPush())
	return root
}

// addGroup adds commands that a help shows together.
func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
}

// knownCommand refuses what is no command, and names those that are like it.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if like := root.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return usage(fmt.Errorf("%s (see `%s --help`)", text, root.CommandPath()))
}

// flagError is a mistake in a flag, with the flag that was probably meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if like := likeFlag(c.Flags(), unknown.GetSpecifiedName()); like != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, like)
		}
	}
	return usage(fmt.Errorf("%w (see `%s --help`)", err, c.CommandPath()))
}
