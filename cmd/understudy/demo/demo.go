// Package demo is the command that shows a preview from beginning to end in ten seconds,
// on a server of its own with generated traffic.
//
// It is the real server on its real ports, started by a function that main hands over, and
// what is shown as a command is run as it is: only the flags that say where the server is
// are not shown. The traffic comes from a fixed
// seed: both rounds ask for the same, so the numbers before and after the fix can be
// compared. If a step does not show what it should, the demo fails, which makes it a test
// of the whole too.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/admin/report"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// The names of what is shown. A server for the demo follows Policy in Location.
const (
	Location   = "projects/demo/locations/local"
	Policy     = "shop"
	experiment = Policy + "/tighter"
	// gate is what a change has to show: that it changes nothing for anybody but what its author expects, and
	// that requests have shown what it does.
	gate = report.DefaultTerm + ",requests>=250"
	// demoRequests is the traffic of one round.
	demoRequests = 300
	// look is how often the demo looks whether it was compared.
	look = 100 * time.Millisecond
)

// demo is the main job from beginning to end, shown to someone who has never seen
// it: on the real server, over its real ports, with the commands that a user has.
type demo struct {
	// out and colour are where the demo is shown.
	out    io.Writer
	colour terminal.Palette
	// pause is between chapters, for anyone who reads along.
	pause time.Duration
	// start runs the server, and execute a command.
	start   Serve
	execute Execute
	// dir has the files that the commands read.
	dir string
	// authz is the sidecar that is asked.
	authz authv3.AuthorizationClient
	// traffic is made anew for the second round.
	traffic *traffic
	// flags say to all commands where the server is.
	flags []string
	// keep says that the server stays, with traffic, until it is interrupted.
	keep bool
	// timeout bounds the comparison of a round.
	timeout time.Duration
	// samples are requests that the commit decides in another way, and before is how they were decided.
	samples []call
	before  []string
}

// Serve runs a server until ctx is done: with all it stores in dir, on free ports of this
// machine, and its log for log. announce gets the addresses of its ports by name (authz,
// admin).
type Serve func(ctx context.Context, dir string, log io.Writer, announce func(map[string]string)) error

// Execute runs a command of the binary in this process, without its name: report shop/tighter.
type Execute func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// New is the command. start runs the server that is shown, and execute what is done with it.
func New(start Serve, execute Execute) *cobra.Command {
	var fast, keep bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the whole of it in ten seconds",
		Long: `Start a server of its own, with an example policy and an experiment; send it
traffic as Envoy would; show what the experiment would change; and commit it. It
uses free ports and a temporary folder, and leaves nothing behind. With --keep it
stays up with traffic flowing, so that you can look at its page in a browser.`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			d := &demo{out: out, colour: terminal.PaletteFor(out), pause: 900 * time.Millisecond, start: start, execute: execute, keep: keep, timeout: timeout}
			if fast {
				d.pause = 0
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&fast, "fast", false, "do not pause between the steps")
	cmd.Flags().BoolVar(&keep, "keep", false, "stay up at the end, with another experiment and traffic, until Ctrl-C")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Minute, "how long the comparison of a round may take")
	return cmd
}

// run starts a server and shows the chapters on it.
//
// The server runs in this process. If it fails before its ports are open, its error is
// that of the demo; the log is dropped, since the demo's own text is what is looked at.
func (d *demo) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "understudy-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.dir, d.traffic = dir, newTraffic()
	bound, served, log := make(chan map[string]string, 1), make(chan error, 1), &bytes.Buffer{}
	go func() {
		served <- d.start(ctx, dir, log, func(b map[string]string) { bound <- b })
	}()
	select {
	case addresses := <-bound:
		err = d.chapters(ctx, addresses)
	case err = <-served:
		return fmt.Errorf("the server did not start: %w", err)
	}
	cancel()
	if stopped := <-served; err == nil {
		err = stopped
	}
	return err
}

// chapters shows them, one after the other.
func (d *demo) chapters(ctx context.Context, bound map[string]string) error {
	d.flags = []string{"--admin", bound["admin"], "--location", Location}
	conn, err := grpc.NewClient(bound["authz"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	d.authz = authv3.NewAuthorizationClient(conn)
	fmt.Fprintf(d.out, "Understudy runs on this machine: Envoy would ask it at %s.\n", bound["authz"])
	fmt.Fprintf(d.out, "Its page is http://%s/ui/\n", bound["admin"])
	fmt.Fprintf(d.out, "   %s\n", d.colour.Dim("$ export UNDERSTUDY_ADMIN_ADDR="+bound["admin"]+" \\\n       UNDERSTUDY_LOCATION="+Location))
	for _, chapter := range []func(context.Context) error{
		d.createPolicy, d.showDecisions, d.startPreview, d.catch, d.fix, d.confirm, d.commit,
	} {
		if err := d.wait(ctx); err != nil {
			return err
		}
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(d.out, "\nWhat would change was known before. `understudy serve` starts it for real.")
	if d.keep {
		return d.stay(ctx, bound["admin"])
	}
	return nil
}

// wait pauses before a chapter.
func (d *demo) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d.pause):
		return nil
	}
}

// chapter prints a heading.
func (d *demo) chapter(n int, title string) {
	fmt.Fprintf(d.out, "\n%s\n", d.colour.Bold(fmt.Sprintf("%d. %s", n, title)))
}

// createPolicy begins with what a user has: a live policy.
func (d *demo) createPolicy(ctx context.Context) error {
	d.chapter(1, "A live policy: who may call what in a shop")
	if err := d.writeExamples(); err != nil {
		return err
	}
	return d.quietly(ctx, "apply", Policy, "-f", "deploy/examples/policy.yaml")
}

// showDecisions asks for some requests, so that it is seen what the policy is about.
func (d *demo) showDecisions(ctx context.Context) error {
	d.chapter(2, "Envoy asks, the live policy decides")
	for _, r := range d.traffic.samples() {
		result, err := d.ask(ctx, r)
		if err != nil {
			return err
		}
		d.showDecision(r, result)
	}
	return nil
}

// showDecision prints one decision on a line.
func (d *demo) showDecision(r call, result string) {
	fmt.Fprintf(d.out, "   %s  %-6s %-22s %s\n", d.colour.Result(fmt.Sprintf("%-5s", result)), r.method, r.path, d.colour.Dim(r.who()))
}

// startPreview makes the experiment, which has a mistake, and starts its preview.
func (d *demo) startPreview(ctx context.Context) error {
	d.chapter(3, "An experiment: a change that nobody dares to make")
	if err := d.quietly(ctx, "apply", experiment, "-f", "deploy/examples/experiment.yaml"); err != nil {
		return err
	}
	err := d.quietly(ctx, "start", experiment)
	fmt.Fprintln(d.out, "   From now on each request is decided by both. Only the live policy counts.")
	return err
}

// catch shows what the experiment would have broken.
func (d *demo) catch(ctx context.Context) error {
	d.chapter(4, fmt.Sprintf("The catch: %d requests, as Envoy sends them", demoRequests))
	if err := d.rehearse(ctx); err != nil {
		return err
	}
	if err := d.show(ctx, "report", experiment, "--require", gate); !unmet(err) {
		return fmt.Errorf("the report should say that the experiment denies and allows something new: %w", err)
	}
	r, err := d.counts(ctx)
	fmt.Fprintf(d.out, "   Live, it would have locked the service web out %d times. Nobody was.\n", r.NewlyDeniedCount)
	fmt.Fprintf(d.out, "   And sam of support would have read the reports %d times. May he?\n", r.NewlyAllowedCount)
	return err
}

// fix lists the service that was forgotten, and starts the preview of that version. What is
// newly allowed and what is answered differently is what the change is for, and its file says so.
func (d *demo) fix(ctx context.Context) error {
	d.chapter(5, "The fix: web may ask for the stock, too")
	fmt.Fprintln(d.out, "   web was forgotten, and is listed. Support may read the reports: the change is")
	fmt.Fprintln(d.out, "   for that. So its file says what it is meant to change, for all who review it:")
	for line := range strings.Lines(expects) {
		fmt.Fprint(d.out, "     ", d.colour.Dim(line))
	}
	fmt.Fprintln(d.out)
	// Before the preview of the fix: its report is to have the traffic alone.
	d.samples = newTraffic().samples()
	var err error
	if d.before, err = d.askAll(ctx, d.samples); err != nil {
		return err
	}
	if err := d.quietly(ctx, "apply", experiment, "-f", fixedFile); err != nil {
		return err
	}
	return d.quietly(ctx, "start", experiment)
}

// confirm sends the same traffic again: nobody is locked out, and nobody gets in who was not
// meant to. But nobody came whom the new rule turns away, so no request has shown that it does.
// The tests of the policy do, and somebody has to say so.
func (d *demo) confirm(ctx context.Context) error {
	d.chapter(6, fmt.Sprintf("The same %d requests again", demoRequests))
	d.traffic = newTraffic()
	d.traffic.samples() // as before: the requests that follow are the same
	if err := d.rehearse(ctx); err != nil {
		return err
	}
	if err := d.show(ctx, "report", experiment, "--require", gate); !unmet(err) {
		return fmt.Errorf("the report should say that some items were not seen: %w", err)
	}
	fmt.Fprintln(d.out, "   Nobody came whom the new rule turns away: of that, the report says nothing.")
	fmt.Fprintln(d.out, "   The tests in shop_test.rego do. Who has read them says so, by name:")
	return d.show(ctx, "accept", experiment, "all-items", "--reason", "shop_test.rego has who is turned away")
}

// rehearse sends traffic and waits until the report has all of it.
//
// Sidecars publish what they counted a moment after they answered.
func (d *demo) rehearse(ctx context.Context) error {
	counts := make(map[string]int)
	begin := time.Now()
	for range demoRequests {
		result, err := d.ask(ctx, d.traffic.next())
		if err != nil {
			return err
		}
		counts[result]++
	}
	fmt.Fprintf(d.out, "   %d were allowed and %d denied, in %d ms: by the live policy alone.\n", counts["ALLOW"], counts["DENY"], time.Since(begin).Milliseconds())
	return d.awaitAll(ctx)
}

// awaitAll waits until the report has all requests of a round, and none of them waits to be examined.
func (d *demo) awaitAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	for {
		r, err := d.counts(ctx)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("the requests of this round were not compared in %v; --timeout gives it longer", d.timeout)
		}
		if err != nil || r.RequestCount >= demoRequests && r.PendingRequestCount == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d requests were compared in %v, and %d wait to be examined", r.RequestCount, demoRequests, d.timeout, r.PendingRequestCount)
		case <-time.After(look):
		}
	}
}

// commit commits what was previewed and shows that a decision has changed.
func (d *demo) commit(ctx context.Context) error {
	d.chapter(7, "Commit: exactly the version that was previewed, everywhere at once")
	commit := []string{"commit", experiment, "--yes", "--require", gate}
	d.shown(commit)
	if err := d.call(ctx, io.Discard, d.screen(), commit...); err != nil {
		return err
	}
	after, err := d.askAll(ctx, d.samples)
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, "   What is decided in another way, before and after:")
	for i, r := range d.samples {
		if d.before[i] != after[i] {
			d.showDecision(r, d.before[i])
			d.showDecision(r, after[i])
		}
	}
	if slices.Equal(d.before, after) {
		return errors.New("the commit changed no decision")
	}
	return nil
}

// askAll asks for each of some requests, and returns the decisions in their order.
func (d *demo) askAll(ctx context.Context, requests []call) (results []string, err error) {
	results = make([]string, len(requests))
	for i, r := range requests {
		if results[i], err = d.ask(ctx, r); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// ask sends one CheckRequest.
//
// It is the same call as Envoy's, so what is shown is what Envoy would get.
func (d *demo) ask(ctx context.Context, r call) (string, error) {
	response, err := d.authz.Check(ctx, r.request())
	if err != nil {
		return "", fmt.Errorf("asking for %s %s: %w", r.method, r.path, err)
	}
	if codes.Code(response.GetStatus().GetCode()) == codes.OK {
		return "ALLOW", nil
	}
	return "DENY", nil
}
