package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// experimentFile is the file of a merged experiment, which names its modules as files next to it.
const experimentFile = "experiment.json"

// writeRebased writes a merged experiment into a folder, as `apply -f` reads it. It replaces files that are there. While
// there are conflicts, the base stays, so that the report goes on to list what the experiment lacks.
func (c *Client) writeRebased(r *rebased, dir string) error {
	e := &adminpb.PolicyExperiment{
		DisplayName: r.after.DisplayName, Annotations: r.after.Annotations, Expects: r.after.Expects, Policy: r.after.Policy, BaseRevision: r.after.BaseRevision,
	}
	if r.unresolved() {
		e.BaseRevision = r.before.BaseRevision
	}
	names, err := writeExperiment(e, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(c.Out, terminal.Line(filepath.Join(dir, name))); err != nil {
			return err
		}
	}
	apply := fmt.Sprintf("understudy apply %s -f %s", c.short(r.before.Name), filepath.Join(dir, experimentFile))
	switch {
	case !r.unresolved():
		fmt.Fprintf(c.Err, "nothing was changed on the server; `%s` does that\n", terminal.Line(apply))
		return nil
	case len(r.lacks) > 0:
		c.showLacks(r)
		return fmt.Errorf("make these changes where the experiment needs them, then call %q and `understudy rebase %s --keep`", apply, c.short(r.before.Name))
	}
	c.showConflicts(r)
	return fmt.Errorf("%s: modules have both versions of such lines, between <<<<<<< and >>>>>>>, and all else has what the experiment has; resolve them, then call %q and `understudy rebase %s --keep`",
		conflictsOf(r), apply, c.short(r.before.Name))
}

// writeExperiment writes an experiment and its modules into a folder, and returns the names of the files. A module never
// leads out of the folder, whatever its name is.
func writeExperiment(e *adminpb.PolicyExperiment, dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	write := func(name string, text []byte) error {
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		names = append(names, name)
		return root.WriteFile(name, text, 0o644)
	}
	for name, text := range e.Policy.Modules {
		if err := write(name, []byte(text)); err != nil {
			return nil, err
		}
		e.Policy.Modules[name] = "@" + name
	}
	var text bytes.Buffer
	if err := terminal.WriteJSON(&text, e); err != nil {
		return nil, err
	}
	slices.Sort(names)
	return append([]string{experimentFile}, names...), root.WriteFile(experimentFile, text.Bytes(), 0o644)
}
