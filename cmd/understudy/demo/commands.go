package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
	"understudy/deploy/examples"
)

// The screen that reports are fitted to, the columns left of what is shown, and what begins the
// second line of a command.
const (
	screenColumns, screenLines = 80, 30
	indent                     = 3
	continuation               = "    "
)

// show shows a command and what it prints.
func (d *demo) show(ctx context.Context, args ...string) error {
	d.shown(args)
	return d.call(ctx, d.screen(), d.screen(), args...)
}

// screen is where the output of commands is shown.
func (d *demo) screen() io.Writer {
	return &terminal.Inset{To: d.out, Indent: indent, Columns: screenColumns - indent, Lines: screenLines}
}

// quietly shows a command whose result is one line that says that it is done.
func (d *demo) quietly(ctx context.Context, args ...string) error {
	d.shown(args)
	return d.call(ctx, io.Discard, io.Discard, args...)
}

// call runs a command on the demo's server. Files are those of its folder.
func (d *demo) call(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	args = slices.Concat(args, d.flags)
	if at := slices.Index(args, "-f"); at >= 0 {
		args[at+1] = filepath.Join(d.dir, args[at+1])
	}
	return d.execute(ctx, args, stdout, stderr)
}

// shown prints a command as it would be typed.
func (d *demo) shown(args []string) {
	words := slices.Clone(args)
	for i, word := range words {
		if strings.ContainsAny(word, "<>&| *") {
			words[i] = "'" + word + "'"
		}
	}
	for i, line := range broken(append([]string{"$ understudy"}, words...)) {
		if i > 0 {
			fmt.Fprintln(d.out, d.colour.Dim(` \`))
			line = continuation + line
		}
		fmt.Fprint(d.out, strings.Repeat(" ", indent)+d.colour.Dim(line))
	}
	fmt.Fprintln(d.out)
}

// broken breaks a command into lines that fit the screen. A flag stays with its value, unless both
// are longer than a line.
func broken(words []string) (lines []string) {
	const room = screenColumns - indent - len(continuation) - len(` \`)
	line := words[0]
	for i := 1; i < len(words); i++ {
		next := words[i]
		if i+1 < len(words) && strings.HasPrefix(next, "--") && !strings.HasPrefix(words[i+1], "--") && len(next)+1+len(words[i+1]) <= room {
			i++
			next += " " + words[i]
		}
		if len(line)+1+len(next) > room {
			lines, line = append(lines, line), next
		} else {
			line += " " + next
		}
	}
	return append(lines, line)
}

// reportCounts is what of a report the demo reads.
type reportCounts struct {
	RequestCount int64 `json:"requestCount,string"`
	// PendingRequestCount is how many wait to be examined.
	PendingRequestCount int64 `json:"pendingRequestCount,string"`
	NewlyDeniedCount    int64 `json:"newlyDeniedCount,string"`
	NewlyAllowedCount   int64 `json:"newlyAllowedCount,string"`
}

// counts reads from the report how many requests were compared, newly denied and newly allowed.
func (d *demo) counts(ctx context.Context) (r reportCounts, err error) {
	var out bytes.Buffer
	if err := d.call(ctx, &out, io.Discard, "report", experiment, "-o", "json"); err != nil {
		return r, err
	}
	err = json.Unmarshal(out.Bytes(), &r)
	return r, err
}

// unmet reports whether an error is the exit code of a report whose requirements are not
// met.
func unmet(err error) bool {
	var exit *command.ExitError
	return errors.As(err, &exit) && exit.Code == command.ExitFailure && exit.Cause == nil
}

// The file of the fix: what the experiment lists of the callers of the stock, and what it has to list; and which
// differences it is meant to make, before its policy.
const (
	fixedFile = "deploy/examples/fixed.yaml"
	forgotten = "stock: [checkout, warehouse]"
	listed    = "stock: [checkout, warehouse, web]"
	policyKey = "\npolicy:\n"
	expects   = `expects:
- kind: NEWLY_ALLOWED
  method: GET
  path: /api/reports
  reason: support may read the reports
- kind: RESPONSE_CHANGED
  path: /api/orders
  reason: the orders learn of the customer's plan`
)

// writeExamples writes the files that the commands read, as they are in the repository,
// and the experiment with its fix.
func (d *demo) writeExamples() error {
	const folder = "deploy/examples"
	if err := os.MkdirAll(filepath.Join(d.dir, folder), 0o700); err != nil {
		return err
	}
	entries, err := examples.Files.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		content, err := examples.Files.ReadFile(e.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(d.dir, folder, e.Name()), content, 0o600); err != nil {
			return err
		}
	}
	content, err := examples.Files.ReadFile("experiment.yaml")
	if err != nil {
		return err
	}
	fixed := string(content)
	for _, change := range [][2]string{{forgotten, listed}, {policyKey, "\n" + expects + policyKey}} {
		if !strings.Contains(fixed, change[0]) {
			return fmt.Errorf("experiment.yaml does not have %q", change[0])
		}
		fixed = strings.Replace(fixed, change[0], change[1], 1)
	}
	return os.WriteFile(filepath.Join(d.dir, fixedFile), []byte(fixed), 0o600)
}
