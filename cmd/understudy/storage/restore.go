package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"understudy/admin/recovery"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// restore is the command for a store that has lost its policies.
type restore struct {
	// config has the flags of serve that name store, location and file.
	config Config
	// ways are those to end it; without one of them an empty location is filled.
	ways []*way
	// validateOnly shows what would be done.
	validateOnly bool
	// out is standard output: what was done, as a table.
	out io.Writer
}

// NewRestore makes the command. It writes to the store without the API: when a store has
// lost everything, a server may not even start on it.
func NewRestore() *cobra.Command {
	r := &restore{}
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Store the policies again that a store has lost, or accept the loss",
		Long: `Store the policies again that a store has lost, or accept the loss.

When a store has lost policies (a Redis without persistence was restarted, a FLUSHALL,
a failover to a replica that lagged, a new file in the place of a damaged one) or has
older versions of them (an older dump, the wrong backup), the sidecars keep deciding by
the last ones, log an error and name them on /readyz. This command ends that. It writes to the store itself, and takes the flags and variables of
'understudy serve': run it where the sidecar runs, with the same --store, --location
and --policy, for the snapshot file has its name from them; or copy that file and name
it with --snapshot-file. A bolt store belongs to one process: stop that before.

  understudy restore            stores the policies of the snapshot file with their
                                ACTIVE experiments again, under the same etags; the
                                location has to be empty
  understudy restore --missing  stores only those of which the location knows nothing
  understudy restore --empty    deletes the policies that are missing: the sidecars
                                drop them. What the snapshot file has of them can be
                                undeleted for 30 days
  understudy restore --newer    stores the policies of the snapshot file again of which
                                the store has an older version
  understudy restore --accept   has the sidecars follow those older versions

Of bindings and the configuration there is no copy. While a store has gone back behind
changes of these, the admin API takes changes of owners only. Look at them first, set
what is wrong as an owner, and then end that with --newer or --accept.

Not in a snapshot file, and so not restored: policies that could not be read,
earlier revisions, experiments that were not ACTIVE, deleted policies, operations, the
location's config, and the documents of Policyfile locks.`,
		Example: `  understudy restore --store redis://localhost:6379 --location projects/shop/locations/prod --validate-only
  understudy restore --empty --store redis://localhost:6379 --location projects/shop/locations/prod`,
		Args: command.NoArguments,
	}
	f := cmd.Flags()
	for _, w := range ways() {
		f.BoolVar(&w.chosen, w.flag, false, w.help)
		r.ways = append(r.ways, w)
	}
	f.BoolVar(&r.validateOnly, "validate-only", false, "show what would be done, and change nothing")
	shared := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	r.config.Bind(shared)
	f.AddFlagSet(shared)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r.out = cmd.OutOrStdout()
		WarnOfPassword(shared, func(text string) { cmd.PrintErrln("warning: " + text) })
		if err := command.FromEnvironment(shared); err != nil {
			return command.Usage(err)
		}
		return r.run(cmd.Context())
	}
	cmd.SetUsageFunc(command.GroupedUsage(restoreFlags))
	return cmd
}

// run checks flags, reads the file, and asks the store whether it takes us before anything
// is written.
func (r *restore) run(ctx context.Context) error {
	way, err := r.way()
	if err != nil {
		return command.Usage(err)
	}
	if err := r.config.FillIn(); err != nil {
		return err
	}
	if !LocationPattern.MatchString(r.config.Location) {
		return command.Usage(errors.New("--location: it is like projects/default/locations/local"))
	}
	saved, written, err := r.snapshot(way)
	if err != nil {
		return err
	}
	// A command ends with an error of the store, so nobody needs a log of the files.
	certificates, err := Certificates(r.config, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	st, err := Open(r.config, certificates)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	if err := Refusal(ctx, st); err != nil {
		return err
	}
	versions, err := way.do(recovery.Recovery{
		Store: st, Location: authz.Location(r.config.Location), Saved: saved, ValidateOnly: r.validateOnly,
	}, ctx)
	return r.report(err, way, versions, written)
}

// way is one to end that a store has lost policies.
type way struct {
	// flag chooses it, and help is that of the flag.
	flag, help string
	chosen     bool
	do         func(recovery.Recovery, context.Context) ([]recovery.Version, error)
	// withoutFile says that the reports of the sidecars will do.
	withoutFile bool
	// insteadOf says that what is saved is given up, and not what is stored.
	insteadOf string
	// done is what became of the policies, and nothing says that there were none.
	done, nothing string
	// accepts says that bindings and configuration count as the store has them.
	accepts bool
}

// experiments returns how many experiments come with a policy. Those that the store has stay as they are.
func (w *way) experiments(state authz.PolicyState) string {
	if w.insteadOf != "" {
		return "-"
	}
	return strconv.Itoa(len(state.Experiments))
}

// ways are those that a flag chooses.
func ways() []*way {
	return []*way{
		{flag: "missing", help: "leave what is there as it is, and store what is not", do: recovery.Recovery.RestoreMissing, done: "stored again", nothing: nothingMissing},
		{flag: "empty", help: "accept the loss: delete the policies that are missing", do: recovery.Recovery.AcceptLoss, withoutFile: true, done: "deleted", nothing: nothingMissing},
		{flag: "newer", help: "store the policies of which the store has an older version", do: recovery.Recovery.RestoreNewer, accepts: true, done: "stored again", nothing: nothingOlder},
		{flag: "accept", help: "have the sidecars follow older versions that the store has", do: recovery.Recovery.AcceptOlder, accepts: true, withoutFile: true, insteadOf: "in place of what was", done: "stored again as the store has them", nothing: nothingOlder},
	}
}

const (
	nothingMissing = "nothing is missing in %s; nothing was changed"
	nothingOlder   = "no policy of %s is older than one that a sidecar has; none was changed"
)

// way returns the one that was chosen: without a flag, an empty location is filled.
func (r *restore) way() (*way, error) {
	chosen := &way{do: recovery.Recovery.Restore, done: "stored again", nothing: nothingMissing}
	for _, w := range r.ways {
		switch {
		case w.chosen && chosen.flag != "":
			return nil, fmt.Errorf("--%s and --%s exclude each other: choose one", chosen.flag, w.flag)
		case w.chosen:
			chosen = w
		}
	}
	return chosen, nil
}

// snapshot reads the snapshot file. What the store has can be accepted without one, for the
// sidecars report what they enforce.
func (r *restore) snapshot(way *way) (authz.Update, time.Time, error) {
	file := r.config.SnapshotFile
	saved, written, err := sidecar.ReadSnapshot(authz.Location(r.config.Location), file)
	switch {
	case err == nil, way.withoutFile && errors.Is(err, fs.ErrNotExist):
		return saved, written, nil
	case errors.Is(err, fs.ErrNotExist):
		return saved, written, fmt.Errorf("there is no snapshot file %s%s: run this where a sidecar of the location ran, "+
			"with its --store, --location and --policy, or name a copy of its file with --snapshot-file", file, r.snapshotFile(file))
	default:
		return saved, written, fmt.Errorf("reading the snapshot file %s: %w", file, err)
	}
}

// snapshotFile names the snapshot files of the location in the folder of one that is not there:
// those of another --policy or, in the folder of all Redis, of another --store.
func (r *restore) snapshotFile(file string) string {
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return ""
	}
	location := r.config.locationInNames()
	var found []string
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(file), e.Name())
		if !e.Type().IsRegular() || !strings.Contains(e.Name(), location) {
			continue
		}
		if _, _, err := sidecar.ReadSnapshot(authz.Location(r.config.Location), path); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (of this location there is " + strings.Join(found, ", ") + ")"
}

// report prints what became, or would become, of policies.
func (r *restore) report(err error, way *way, versions []recovery.Version, written time.Time) error {
	if errors.Is(err, recovery.ErrNotEmpty) {
		return fmt.Errorf("nothing was changed: %w, and a restore fills an empty one; "+
			"`understudy restore --missing` stores only policies of which it knows nothing", err)
	}
	if err != nil {
		return err
	}
	if way.accepts {
		r.reportAccepted()
	}
	if len(versions) == 0 {
		_, err := fmt.Fprintf(r.out, way.nothing+"\n", r.config.Location)
		return err
	}
	what := way.done
	if r.validateOnly {
		what = "valid; nothing was changed: would be " + way.done
	}
	t := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tRULES\tACTIVE EXPERIMENTS\tETAG\tUPDATED")
	for _, v := range versions {
		id, policy := v.Name.ID(), v.State.Policy
		switch {
		case v.State.Gone() && v.State.Sequence > 0:
			fmt.Fprintf(t, "%s\t-\t-\t-\tdeleted\n", id)
		case policy == nil:
			fmt.Fprintf(t, "%s\t-\t-\t-\tthe snapshot file has no content of it\n", id)
		default:
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", id, len(policy.Rules), way.experiments(v.State), policy.Etag, terminal.When(policy.UpdateTime))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	source := ""
	if !written.IsZero() {
		source = fmt.Sprintf(", %s saved at %s in %s", cmp.Or(way.insteadOf, "as"), written.Local().Format(time.DateTime), r.config.SnapshotFile)
	}
	_, err = fmt.Fprintf(r.out, "%s: %s of %s%s\n", what, counted(len(versions)), r.config.Location, source)
	return err
}

// counted is a number of policies.
func counted(n int) string {
	if n == 1 {
		return "1 policy"
	}
	return fmt.Sprintf("%d policies", n)
}

// reportAccepted says what becomes, or would become, of all that is no policy.
func (r *restore) reportAccepted() {
	count := "count as the store has them: if it has gone back, that is accepted, and the admin API takes all changes again"
	if r.validateOnly {
		count = "would count as the store has them"
	}
	fmt.Fprintf(r.out, "bindings and configuration %s; look at them with `understudy iam get`\n", count)
}

// restoreFlags are those of serve that restore takes.
var restoreFlags = []command.FlagGroup{
	{Title: "The store, as serve has it", Names: []string{"store", "store-password-file", "store-ca-file", "store-cert-file", "store-key-file", "location", "policy", "policies", "snapshot-file"}},
}
