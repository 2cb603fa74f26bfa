package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns that the text of a help takes: those of the smallest usual terminal.
const helpWidth = 80

// Help prints the help of a command, its text wrapped by [Wrapped].
func Help(cmd *cobra.Command, _ []string) {
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", Wrapped(cmp.Or(cmd.Long, cmd.Short)), cmd.UsageString())
}

// FlagGroup is flags that a help shows together. A name that ends with a star stands
// for all that begin so and are in no group before. Flags of no group come first,
// under "Flags".
type FlagGroup struct {
	// Title is the heading.
	Title string
	// Names are flags without their dashes, in the order in which they are shown.
	Names []string
}

// GroupedUsage prints the usage of a command with its flags in groups.
func GroupedUsage(groups []FlagGroup) func(*cobra.Command) error {
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
			fmt.Fprintf(w, "\n\"%s COMMAND --help\" shows more about a command.\n", cmd.CommandPath())
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
			fmt.Fprintln(w, Wrapped(fmt.Sprintf("  %-*s  %s", cmd.NamePadding(), c.Name(), c.Short)))
		}
	}
}

// printFlags prints the groups. Each flag is in the first group that takes it, so a star
// takes what no group before has named.
func printFlags(w io.Writer, all *pflag.FlagSet, groups []FlagGroup) {
	sets := make([]*pflag.FlagSet, len(groups))
	seen := make(map[string]bool)
	for i, g := range groups {
		sets[i] = g.Take(all, seen)
	}
	printGroup(w, "Flags", FlagGroup{Names: []string{"*"}}.Take(all, seen))
	for i, g := range groups {
		printGroup(w, g.Title, sets[i])
	}
}

// printGroup prints a group, if it has flags.
func printGroup(w io.Writer, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\n%s:\n%s\n", title, Wrapped(flags.FlagUsages()))
	}
}

// Take returns the flags of the group, in its order, that were not seen before.
func (g FlagGroup) Take(all *pflag.FlagSet, seen map[string]bool) *pflag.FlagSet {
	taken := pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
	taken.SortFlags = false
	for _, name := range g.Names {
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
