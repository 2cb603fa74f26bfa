package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// version is set by the linker.
var version = "dev"

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
	addGroup(root, "run", "Run it:", newDemo(serveDemo), newServe(), newCheck(), newHealth(), newRestore())
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
