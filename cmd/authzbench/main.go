// Authzbench measures what a server of Envoy's external authorization costs.
//
// It sends CheckRequests as Istio does, to several servers that decide by the same
// policy on the same processors in turn, and reports each as a ratio to a server
// that does nothing: times differ from machine to machine and from minute to
// minute, ratios of one run hardly do. Before it measures, it makes sure that all
// servers answer alike. It runs on Linux.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "authzbench:", err)
		os.Exit(1)
	}
}

// newRoot is the command line. `server` is hidden: it is how the program starts itself, so
// that a comparison needs no second binary.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "authzbench",
		Short: "Measure ext_authz servers side by side",
		Long: `Measure servers of Envoy's external authorization (ext_authz, gRPC) side by side.

  run       what a check costs, by policy and server
  preview   what ACTIVE experiments add to that, and whether live traffic feels them
  commit    what live traffic feels of a commit
  policies  writes the policies, for servers that you start yourself

All figures are ratios of one run. Close other programs; use a machine with four
processors or more, so that servers and generator have their own.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newRun(), newPreview(), newCommit(), newPolicies(), newServer())
	return root
}
