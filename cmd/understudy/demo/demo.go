// Package demo is the command that shows a preview from beginning to end in ten seconds,
// on a server of its own with generated traffic.
//
// It is the real server on its real ports, started by a function that main hands over, and
// what is shown as a command is the call that is made. The traffic comes from a fixed
// seed: both rounds ask for the same, so the numbers before and after the fix can be
// compared. If a step does not show what it should, the demo fails, which makes it a test
// of the whole too.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/spf13/cobra"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/resourcefile"
	"understudy/cmd/understudy/terminal"
	"understudy/deploy/examples"
)

// The names of what is shown. A server for the demo follows demoPolicy in demoLocation.
const (
	Location       = "projects/demo/locations/local"
	Policy         = "shop"
	demoExperiment = "tighter"
	// demoRequests is the traffic of one round.
	demoRequests = 300
)

// demo is the main job from beginning to end, shown to someone who has never seen
// it: on the real server, over its real ports.
type demo struct {
	// out and colour are where the demo is shown.
	out    io.Writer
	colour terminal.Palette
	// pause is between chapters, for whoever reads along.
	pause time.Duration
	// start runs the server.
	start Serve
	// admin is the origin of the admin API, authz the sidecar that is asked.
	admin string
	authz authv3.AuthorizationClient
	// records are what the preview records, without a collector.
	records *collected
	// traffic is made anew for the second round.
	traffic *traffic
}

// Serve runs a server until ctx is done: with all it stores in dir, on free ports of
// this machine, with preview records also for records, and its log for log. announce gets
// the addresses of its ports by name (authz, admin).
type Serve func(ctx context.Context, dir string, records sdklog.Exporter, log io.Writer, announce func(map[string]string)) error

// New is the command. start runs the server that is shown.
func New(start Serve) *cobra.Command {
	var fast bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See the whole of it in ten seconds",
		Long: `Start a server of its own, with an example policy and an experiment; send it
traffic as Envoy would; show what the experiment would change; and commit it. It
uses free ports and a temporary folder, and leaves nothing behind.`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &demo{out: cmd.OutOrStdout(), colour: terminal.PaletteFor(cmd.OutOrStdout()), pause: 900 * time.Millisecond, start: start}
			if fast {
				d.pause = 0
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&fast, "fast", false, "do not pause between the steps")
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
	d.records, d.traffic = &collected{}, newTraffic()
	bound, served, log := make(chan map[string]string, 1), make(chan error, 1), &bytes.Buffer{}
	go func() {
		served <- d.start(ctx, dir, d.records, log, func(b map[string]string) { bound <- b })
	}()
	select {
	case addresses := <-bound:
		err = d.show(ctx, addresses)
	case err = <-served:
		return fmt.Errorf("the server did not start: %w", err)
	}
	cancel()
	if stopped := <-served; err == nil {
		err = stopped
	}
	return err
}

// show runs the chapters, one after the other.
func (d *demo) show(ctx context.Context, bound map[string]string) error {
	d.admin = "http://" + bound["admin"]
	conn, err := grpc.NewClient(bound["authz"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	d.authz = authv3.NewAuthorizationClient(conn)
	fmt.Fprintf(d.out, "Understudy runs on this machine: Envoy would ask it at %s.\n", bound["authz"])
	fmt.Fprintf(d.out, "   %s\n", d.colour.Dim("$ L="+d.admin+demoPath))
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
	d.chapter(1, "A live policy: who may call what in a shop (deploy/examples/policy.yaml)")
	body, err := exampleResource("policy.yaml", nil)
	if err != nil {
		return err
	}
	_, err = d.expect(ctx, http.StatusOK, "POST", d.policies()+"?policyId="+Policy, body)
	return err
}

// showDecisions asks for some requests, so that it is seen what the policy is about.
func (d *demo) showDecisions(ctx context.Context) error {
	d.chapter(2, "Envoy asks, the live policy decides")
	for _, r := range d.traffic.samples() {
		verdict, err := d.ask(ctx, r)
		if err != nil {
			return err
		}
		d.showDecision(r, verdict)
	}
	return nil
}

// showDecision prints one decision on a line.
func (d *demo) showDecision(r call, verdict string) {
	fmt.Fprintf(d.out, "   %s  %-6s %-22s %s\n", d.colour.Result(fmt.Sprintf("%-5s", verdict)), r.method, r.path, d.colour.Dim(r.who()))
}

// startPreview makes the experiment, which has a mistake, and starts its preview.
func (d *demo) startPreview(ctx context.Context) error {
	d.chapter(3, "An experiment: a change that nobody dares to make (experiment.yaml)")
	body, err := exampleResource("experiment.yaml", func(document map[string]any) {
		document["policy"].(map[string]any)["name"] = strings.TrimPrefix(d.policy(), "/v1/")
	})
	if err != nil {
		return err
	}
	url := d.policy() + "/experiments?policyExperimentId=" + demoExperiment
	if _, err := d.expect(ctx, http.StatusOK, "POST", url, body); err != nil {
		return err
	}
	_, err = d.expect(ctx, http.StatusOK, "POST", d.experiment()+":startPreview", []byte("{}"))
	fmt.Fprintln(d.out, "   From now on each request is decided by both. Only the live policy counts.")
	return err
}

// catch shows what the experiment would have broken.
func (d *demo) catch(ctx context.Context) error {
	d.chapter(4, fmt.Sprintf("The catch: %d requests, as Envoy sends them", demoRequests))
	if err := d.rehearse(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "   A preview record for each (OpenTelemetry logs), such as this one:\n")
	for _, line := range d.records.example("NEWLY_DENIED") {
		fmt.Fprintln(d.out, "     "+d.colour.Dim(line))
	}
	d.records.table(d.out, d.colour)
	denied := d.records.count("NEWLY_DENIED")
	if denied == 0 {
		return errors.New("the experiment denies nothing new, so there is nothing to catch")
	}
	fmt.Fprintf(d.out, "   Live, it would have locked the service web out %d times. Nobody was.\n", denied)
	return nil
}

// fix lists the service that was forgotten, and starts the preview of that version.
func (d *demo) fix(ctx context.Context) error {
	d.chapter(5, "The fix: web may ask for the stock, too")
	body, err := exampleResource("experiment.yaml", func(document map[string]any) {
		policy := document["policy"].(map[string]any)
		callers := policy["data"].(map[string]any)["callers"].(map[string]any)
		callers["stock"] = append(callers["stock"].([]any), "web")
		policy["name"] = strings.TrimPrefix(d.policy(), "/v1/")
	})
	if err != nil {
		return err
	}
	if _, err := d.expect(ctx, http.StatusOK, "PATCH", d.experiment()+"?updateMask=policy.data", body); err != nil {
		return err
	}
	_, err = d.expect(ctx, http.StatusOK, "POST", d.experiment()+":startPreview", []byte("{}"))
	return err
}

// confirm sends the same traffic again: it would all go on as before, or better.
func (d *demo) confirm(ctx context.Context) error {
	d.chapter(6, fmt.Sprintf("The same %d requests again", demoRequests))
	d.traffic = newTraffic()
	d.traffic.samples() // as before: the requests that follow are the same
	if err := d.rehearse(ctx); err != nil {
		return err
	}
	d.records.table(d.out, d.colour)
	denied := d.records.count("NEWLY_DENIED")
	fmt.Fprintf(d.out, "   %s\n", d.colour.Bold(fmt.Sprintf("%d would be newly denied.", denied)))
	if denied > 0 {
		return errors.New("the fix does not help")
	}
	return nil
}

// rehearse sends traffic and waits for what the preview says of it.
func (d *demo) rehearse(ctx context.Context) error {
	d.records.reset()
	counts := make(map[string]int)
	begin := time.Now()
	for range demoRequests {
		verdict, err := d.ask(ctx, d.traffic.next())
		if err != nil {
			return err
		}
		counts[verdict]++
	}
	fmt.Fprintf(d.out, "   %d were allowed and %d denied, in %d ms: by the live policy alone.\n", counts["ALLOW"], counts["DENY"], time.Since(begin).Milliseconds())
	return d.records.await(ctx, demoRequests)
}

// commit commits what was previewed and shows that a decision has changed.
func (d *demo) commit(ctx context.Context) error {
	d.chapter(7, "Commit: exactly the version that was previewed, everywhere at once")
	etag, err := d.etag(ctx)
	if err != nil {
		return err
	}
	requests := d.traffic.samples()
	before, err := d.askAll(ctx, requests)
	if err != nil {
		return err
	}
	if _, err := d.expect(ctx, http.StatusOK, "POST", d.experiment()+":commit", etag); err != nil {
		return err
	}
	after, err := d.askAll(ctx, requests)
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out, "   What is decided in another way, before and after:")
	for i, r := range requests {
		if before[i] != after[i] {
			d.showDecision(r, before[i])
			d.showDecision(r, after[i])
		}
	}
	if slices.Equal(before, after) {
		return errors.New("the commit changed no decision")
	}
	return nil
}

// askAll asks for each of some requests, and returns the decisions in their order.
func (d *demo) askAll(ctx context.Context, requests []call) (verdicts []string, err error) {
	verdicts = make([]string, len(requests))
	for i, r := range requests {
		if verdicts[i], err = d.ask(ctx, r); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// etag reads the experiment's etag and returns the body of its commit.
func (d *demo) etag(ctx context.Context) ([]byte, error) {
	answer, err := d.expect(ctx, http.StatusOK, "GET", d.experiment(), nil)
	if err != nil {
		return nil, err
	}
	var experiment struct {
		Etag string `json:"etag"`
	}
	if err := json.Unmarshal(answer, &experiment); err != nil {
		return nil, err
	}
	return json.Marshal(experiment)
}

// demoPath is the path of the demo's location in the API.
const demoPath = "/v1/" + Location

// The paths of the API. Commands are shown with $L in place of what they all begin with.
func (d *demo) policies() string   { return demoPath + "/policies" }
func (d *demo) policy() string     { return d.policies() + "/" + Policy }
func (d *demo) experiment() string { return d.policy() + "/experiments/" + demoExperiment }

// expect makes a call of the REST API, shows it as a command, and fails unless the
// status is the expected one.
func (d *demo) expect(ctx context.Context, status int, method, path string, body []byte) ([]byte, error) {
	d.showCommand(method, path, body)
	r, err := http.NewRequestWithContext(ctx, method, d.admin+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != status {
		err = fmt.Errorf("%s %s answered %s: %s", method, path, response.Status, answer)
	}
	return answer, err
}

// demoWidth is the columns of the terminal that the demo is made for.
const demoWidth = 80

// showCommand shows a call as the command that makes it, with $L for the location.
func (d *demo) showCommand(method, path string, body []byte) {
	shown := "$ curl"
	if method != http.MethodGet && method != http.MethodPost {
		shown += " -X " + method
	}
	switch {
	case len(body) > 100:
		shown += " --json @…" // which makes it a POST
	case len(body) > 0:
		shown += " --json '" + string(body) + "'"
	}
	url := `"$L` + strings.TrimPrefix(path, demoPath) + `"`
	if len(shown)+len(url)+4 > demoWidth {
		fmt.Fprintln(d.out, "   "+d.colour.Dim(shown+` \`))
		shown = "    "
	}
	fmt.Fprintln(d.out, "   "+d.colour.Dim(shown+" "+url))
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

// exampleResource reads a resource of the examples as the API takes it.
func exampleResource(name string, change func(map[string]any)) ([]byte, error) {
	content, err := examples.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r, err := resourcefile.Read(content, examples.Files.ReadFile)
	if err != nil {
		return nil, err
	}
	err = r.Change(func(document map[string]any) error {
		if change != nil {
			change(document)
		}
		return nil
	})
	return r.Encoded, err
}
