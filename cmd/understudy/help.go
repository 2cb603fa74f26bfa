package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns that the text of a help takes.
const helpWidth = 110

// flagGroup is flags that a help shows together. A name that ends with a star stands
// for all that begin so and are in no group before. Flags of no group come first,
// under "Flags".
type flagGroup struct {
	title string
	names []string
}

// connectionFlags are the same for all commands that ask a server.
var connectionFlags = []flagGroup{
	{"How the server is reached", []string{"addr", "admin", "location", "ca-cert", "client-cert", "client-key"}},
}

// restoreFlags are those of serve that restore takes.
var restoreFlags = []flagGroup{
	{"The store, as serve has it", []string{"store", "location", "policy", "snapshot-file"}},
}

// serveFlags orders the flags of serve by what one wants to set.
var serveFlags = []flagGroup{
	{"What it follows, and who it is", []string{"store", "location", "policy", "node", "enable", "snapshot-file"}},
	{"Where it listens", []string{
		"authz-addr", "authz-socket-mode", "http-authz-addr", "http-authz-path-prefix",
		"admin-addr", "admin-host", "allow-unauthenticated-admin", "health-addr",
	}},
	{"Decisions", []string{"default-decision", "decision-timeout", "fail-with-error", "decision-id-header", "observe", "grpc-descriptor-set", "body-memory", "decision-memory"}},
	{"What the admin API takes", []string{"require-passing-tests", "max-policy-size", "policyfile-revision-ids"}},
	{"Previews", []string{"preview-console", "preview-*"}},
	{"Decision log", []string{"decision-log", "decision-log-*"}},
	{"External services that policies name", []string{"external-*"}},
	{"Reservations of OpenStack Blazar", []string{"reservation-policy", "reservation-addr", "reservation-*"}},
	{"TLS", []string{"authz-tls-*", "http-authz-tls-*", "admin-tls-*", "tls-*"}},
	{"Connections and shutdown", []string{"authz-*", "drain-delay", "shutdown-timeout"}},
	{"This program", []string{"log-level", "log-format", "help"}},
}

// groupedUsage prints the usage of a command with its flags in groups.
func groupedUsage(groups []flagGroup) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		w := cmd.OutOrStderr()
		if cmd.HasAvailableSubCommands() {
			fmt.Fprintf(w, "Usage:\n  %s COMMAND\n", cmd.CommandPath())
		} else {
			fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
		}
		if cmd.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		printCommands(w, cmd)
		printFlags(w, cmd.LocalFlags(), groups)
		if cmd.HasAvailableSubCommands() {
			fmt.Fprintf(w, "\n\"%s COMMAND --help\" tells more of a command.\n", cmd.CommandPath())
		}
		return nil
	}
}

// printCommands lists the commands below one, by their groups.
func printCommands(w io.Writer, cmd *cobra.Command) {
	for _, group := range append(cmd.Groups(), &cobra.Group{Title: "More:"}) {
		title := group.Title
		for _, c := range cmd.Commands() {
			if c.GroupID != group.ID || !c.IsAvailableCommand() {
				continue
			}
			if title != "" {
				fmt.Fprintf(w, "\n%s\n", title)
				title = ""
			}
			fmt.Fprintf(w, "  %-*s %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
}

func printFlags(w io.Writer, all *pflag.FlagSet, groups []flagGroup) {
	sets := make([]*pflag.FlagSet, len(groups))
	seen := make(map[string]bool)
	for i, g := range groups {
		sets[i] = g.take(all, seen)
	}
	printGroup(w, "Flags", flagGroup{names: []string{"*"}}.take(all, seen))
	for i, g := range groups {
		printGroup(w, g.title, sets[i])
	}
}

func printGroup(w io.Writer, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\n%s:\n%s", title, flags.FlagUsagesWrapped(helpWidth))
	}
}

// take returns the flags of the group, in its order, that were not seen before.
func (g flagGroup) take(all *pflag.FlagSet, seen map[string]bool) *pflag.FlagSet {
	taken := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
	taken.SortFlags = false
	for _, name := range g.names {
		prefix, many := strings.CutSuffix(name, "*")
		all.VisitAll(func(f *pflag.Flag) {
			if !seen[f.Name] && (f.Name == name || many && strings.HasPrefix(f.Name, prefix)) {
				seen[f.Name] = true
				taken.AddFlag(f)
			}
		})
	}
	return taken
}

// likeFlag returns the flag whose name is most like another, or nothing if none is.
func likeFlag(flags *pflag.FlagSet, name string) string {
	best, least := "", 1+max(1, len(name)/4)
	flags.VisitAll(func(f *pflag.Flag) {
		if d := distance(f.Name, name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	return best
}

// distance is the number of characters to insert, delete or replace that makes one
// word of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
