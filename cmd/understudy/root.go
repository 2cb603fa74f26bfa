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

	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/process"
	"understudy/cmd/understudy/author"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/demo"
	"understudy/cmd/understudy/identity"
	"understudy/cmd/understudy/storage"
	"understudy/cmd/understudy/terminal"
)

// run is the whole program but for the process: what main calls and tests start.
//
// A signal cancels the context of the command, which ends in its own time; the next one
// ends the process as the system does. The exit code is that of command.ExitError, and 1
// without one.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == process.Argument {
		// It is no command for people, and has no need of what they need.
		return child.Main(version)
	}
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
		return command.ExitOK
	}
	code := command.ExitFailure
	var exit *command.ExitError
	if errors.As(err, &exit) {
		code = exit.Code
	}
	if exit == nil || exit.Cause != nil {
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(stderr, "understudy:", terminal.Escape(command.HideSecrets(cli.Describe(err))))
	}
	return code
}

// newRoot makes all commands. It is made anew for each run, and for each test of the help:
// cobra keeps the values of flags in it.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "understudy",
		Short: "Rehearse an authorization policy on live traffic before it goes live",
		Long: `Understudy is an external-authorization sidecar for Envoy. It decides every
request by the live policy and, in shadow, by each experiment that is being
previewed; it records where they differ; and a commit puts an experiment live on
every sidecar at once.

'understudy demo' shows all of it in ten seconds.`,
		Version:       thisBuild().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          command.KnownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(command.FlagError)
	root.SetHelpFunc(command.Help)
	root.SetUsageFunc(command.GroupedUsage(cli.ConnectionFlags))
	addGroup(root, "run", "Run it:", demo.New(serveDemo, executeForDemo), newServe(), cli.NewCheck(author.ExplainCheck), cli.NewHealth(), storage.NewRestore(), newVersion())
	addGroup(root, "change", "Policies and experiments:", cli.PolicyCommands()...)
	addGroup(root, "data", "Data apart from policies:", cli.NewData())
	addGroup(root, "stages", "Stages, revisions and sidecars:", cli.StageCommands()...)
	addGroup(root, "access", "Who may do what:", identity.Commands()...)
	addGroup(root, "files", "Policies in files:", author.NewInit(), author.NewImport(), author.NewDiff(), author.NewTest(), author.NewReplay(), author.NewExplain(), author.NewExplainCost(), author.NewLock(), cli.NewPush())
	for _, extra := range extraCommands {
		root.AddCommand(extra(root))
	}
	command.CheckWords(root)
	return root
}

// extraCommands are those of builds with a tag.
var extraCommands []func(root *cobra.Command) *cobra.Command

// addGroup adds commands that a help shows together.
func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
}
