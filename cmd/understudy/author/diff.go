package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"understudy/admin/policydiff"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// The exit codes of `diff` are those of diff(1).
const (
	exitDiffers = 1
	exitTrouble = 2
)

// diffFlags are the flags of `diff`.
// diffFlags has no --require: what differs is for a person to judge.
type diffFlags struct {
	// source says how bundles and folders are read, client how names are.
	source sourceFlags
	client cli.Client
	// rules are those of what has no rules of its own.
	rules        []string
	withoutTests bool
}

// NewDiff makes the command that shows what differs between any two contents, wherever they
// are: what is live and what is in a repository, an experiment and what it would replace, or
// two revisions.
func NewDiff() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff LEFT RIGHT",
		Short: "Show what differs between policies, experiments, revisions and files",
		Long: `Show what differs between two contents: modules as a unified diff, all else value by
value, and of the data the paths that differ.

A side is one of these:
  shop                  the live policy; shop@live if there is a file of that name
  shop/tighter          an experiment
  shop@425cb61005cc     a revision: an ID, the beginning of one, or latest
  policy.yaml           a file of 'understudy apply -f'; - is standard input
  ./policy              a folder, a bundle (tar.gz) or a .rego file, as 'understudy
                        import' reads it. A path of a folder begins with ./, ../ or /

A folder, a bundle and a .rego file have modules and data, and the rules that --rule
names; nothing else of the other side is compared with them.

The exit code is 0 if both are equal, 1 if they differ, and 2 if that could not be
found out.`,
		Example: `  understudy diff shop shop/tighter
  understudy diff shop@latest shop@425cb61005cc
  understudy diff shop ./policy || echo 'live and git differ'
  understudy diff shop policy.yaml -o json | jq '.values[].path'`,
		Args: command.Arguments(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.client.Attach(cmd)
			return trouble(f.run(cmd.Context(), args[0], args[1]))
		},
	}
	flags := cmd.Flags()
	f.source.bind(flags)
	f.client.BindConnection(flags)
	flags.StringVarP(&f.client.Output, "output", "o", "text", "text or json")
	flags.StringArrayVar(&f.rules, "rule", nil, "a rule of what has none of its own, such as envoy/authz/allow; may be repeated")
	flags.BoolVar(&f.withoutTests, "no-tests", false, "leave out modules of files like authz_test.rego")
	_ = cmd.MarkFlagFilename("verification-key")
	command.CompleteOutput(cmd, "text", "json")
	cmd.ValidArgsFunction = f.client.CompleteSide
	return cmd
}

// trouble gives an error the exit code of one, unless it has its own.
//
// Every error but "they differ" has to be 2, or `diff … || echo differs` would say so of a server that
// is away.
func trouble(err error) error {
	var exit *command.ExitError
	if err == nil || errors.As(err, &exit) {
		return err
	}
	return &command.ExitError{Code: exitTrouble, Cause: err}
}

// run reads both sides and shows what differs.
func (f *diffFlags) run(ctx context.Context, left, right string) error {
	switch {
	case !command.OneOf(f.client.Output, "text", "json"):
		return command.Usage(errors.New("--output: it is text or json"))
	case left == "-" && right == "-":
		return command.Usage(errors.New("standard input is one of both sides at most"))
	}
	l, err := f.read(ctx, left)
	if err != nil {
		return err
	}
	r, err := f.read(ctx, right)
	if err != nil {
		return err
	}
	diff := compare(l, r)
	if f.client.Output == "json" {
		err = writeDiffJSON(f.client.Out, diff, l, r)
	} else {
		err = writeDiff(f.client.Out, diff, l, r)
	}
	if err == nil && !diff.Equal() {
		err = &command.ExitError{Code: exitDiffers}
	}
	return err
}

// compare compares what both sides have: of a side with modules and data alone nothing else is
// said, and so not that the other one has it.
//
// Otherwise a folder would always lack the rules and labels of a live policy.
func compare(l, r *side) policydiff.Diff {
	left, right := l.policy, r.policy
	for _, s := range []*side{l, r} {
		if s.partial {
			left, right = s.part(left), s.part(right)
		}
	}
	return policydiff.Of(left, right)
}

// writeDiff writes a diff for people, and for patch(1): what it does not know, it skips. What
// is equal has no diff.
//
// The first two lines say which versions were compared. patch(1) skips them as garbage.
func writeDiff(w io.Writer, d policydiff.Diff, l, r *side) error {
	if d.Equal() {
		return nil
	}
	p := terminal.PaletteFor(w)
	fmt.Fprintf(w, "left:  %s\nright: %s\n", terminal.Line(l.String()), terminal.Line(r.String()))
	for _, m := range d.Modules {
		fmt.Fprintln(w)
		for text := range strings.Lines(m.Unified(policydiff.Names{Left: l.name + "/" + m.Name, Right: r.name + "/" + m.Name})) {
			fmt.Fprintln(w, coloured(p, shown(strings.TrimSuffix(text, "\n"))))
		}
	}
	for _, v := range d.Values {
		fmt.Fprintf(w, "\n%s\n", p.Bold(terminal.Line(v.Path)))
		if v.Left != "" {
			fmt.Fprintln(w, coloured(p, "- "+terminal.Line(v.Left)))
		}
		if v.Right != "" {
			fmt.Fprintln(w, coloured(p, "+ "+terminal.Line(v.Right)))
		}
	}
	return nil
}

// shown is a line of Rego as a terminal may have it: with its tabs.
func shown(line string) string {
	// Escape writes a tab as \t, and Rego is indented with tabs.
	parts := strings.Split(line, "\t")
	for i, part := range parts {
		parts[i] = terminal.Line(part)
	}
	return strings.Join(parts, "\t")
}

// coloured is a line of a diff as people know it.
//
// The palette is empty where there is no terminal.
func coloured(p terminal.Palette, line string) string {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return p.Bold(line)
	case strings.HasPrefix(line, "-"):
		return p.Red(line)
	case strings.HasPrefix(line, "+"):
		return p.Green(line)
	case strings.HasPrefix(line, "@@"):
		return p.Dim(line)
	}
	return line
}

// diffJSON is a diff for programs.
//
// Lists are never null. The text of a module's diff is that of the output for people.
type diffJSON struct {
	Left    sideJSON     `json:"left"`
	Right   sideJSON     `json:"right"`
	Equal   bool         `json:"equal"`
	Modules []moduleJSON `json:"modules"`
	Values  []valueJSON  `json:"values"`
}

// sideJSON says what a side is.
type sideJSON struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Resource, Etag and Revision are those of the server.
	Resource string `json:"resource,omitempty"`
	Etag     string `json:"etag,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// moduleJSON is a module that differs; Diff is unified.
type moduleJSON struct {
	Name   string            `json:"name"`
	Change policydiff.Change `json:"change"`
	Diff   string            `json:"diff"`
}

// valueJSON is a value that differs, without what a side does not have.
type valueJSON struct {
	Path  string          `json:"path"`
	Left  json.RawMessage `json:"left,omitempty"`
	Right json.RawMessage `json:"right,omitempty"`
}

// writeDiffJSON writes a diff for programs.
func writeDiffJSON(w io.Writer, d policydiff.Diff, l, r *side) error {
	out := diffJSON{Left: l.json(), Right: r.json(), Equal: d.Equal(), Modules: []moduleJSON{}, Values: []valueJSON{}}
	for _, m := range d.Modules {
		out.Modules = append(out.Modules, moduleJSON{m.Name, m.Change, m.Unified(policydiff.Names{Left: l.name + "/" + m.Name, Right: r.name + "/" + m.Name})})
	}
	for _, v := range d.Values {
		out.Values = append(out.Values, valueJSON{v.Path, json.RawMessage(v.Left), json.RawMessage(v.Right)})
	}
	return terminal.WriteValue(w, out)
}
