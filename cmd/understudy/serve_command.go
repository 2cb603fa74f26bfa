package main

import (
	"os"

	"github.com/spf13/cobra"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/storage"
	"understudy/cmd/understudy/telemetry"
)

// newServe is the command; what it does stands in serve.go.
func newServe() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the sidecar that Envoy asks, and the admin API",
		Long: `Run the sidecar that Envoy asks over ext_authz gRPC, and the admin API.

Without flags everything is on this machine: policies are kept in a file of the
user's state directory, and all ports listen on the loopback address. With
--store redis://… any number of sidecars share their policies.

Each flag is also an environment variable: --store is UNDERSTUDY_STORE. A flag
wins over its variable. Preview records, metrics and traces are exported as the
standard OTEL_* variables say; without them nothing is exported.

GOGC is 400 unless the environment sets it, and GOMEMLIMIT nine tenths of what
--rehearsal-memory leaves of the container's limit, or else of three quarters of
the machine's memory.

It stops on SIGTERM or SIGINT: readiness goes first, then, after --drain-delay,
the ports close and requests under way are answered. A second signal ends it at once.`,
		Example: `  understudy serve
  understudy serve --store redis://localhost:6379 --location projects/shop/locations/prod --policy web
  UNDERSTUDY_LOG_FORMAT=json understudy serve --preview-console`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var visible []string
			storage.WarnOfPassword(cmd.Flags(), func(text string) { visible = append(visible, text) })
			if err := command.FromEnvironment(cmd.Flags()); err != nil {
				return command.Usage(err)
			}
			if err := c.finish(); err != nil {
				return err
			}
			var console sdklog.Exporter
			if c.previewConsole {
				console = telemetry.NewConsole(cmd.OutOrStdout())
			}
			c.decisionLog.Out, c.audit.Out = cmd.OutOrStdout(), cmd.OutOrStdout()
			c.abort = func() { os.Exit(command.ExitFailure) }
			logger := c.newLogger(cmd.ErrOrStderr())
			for _, text := range visible {
				logger.Warn(text)
			}
			for _, name := range command.StrayVariables(cmd.Flags()) {
				logger.Warn("no flag has this variable; it is ignored", "variable", name)
			}
			lifecycle.TuneGC(logger, lifecycle.RehearsalMemory(c.rehearsal.memory))
			return serve(cmd.Context(), c, console, cmd.ErrOrStderr(), nil)
		},
	}
	c.bind(cmd.Flags())
	cmd.SetUsageFunc(command.GroupedUsage(serveFlags))
	return cmd
}
