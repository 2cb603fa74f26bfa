package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// largeReport is what a large policy costs, beside live traffic of a small one.
type largeReport struct {
	Name string `json:"name"`
	// Refused is why the API did not take it.
	Refused string `json:"refused,omitempty"`
	// Applied is the time of each change, from asking until the sidecar enforces it.
	Applied []time.Duration `json:"applied_ns"`
	// Before and After are the resident memory of the server, in bytes: with the small
	// policy alone, and after the last change.
	Before int64 `json:"memory_before"`
	After  int64 `json:"memory_after"`
	// Quiet and Busy are the p99 of live checks by round, without and with changes of
	// the large policy.
	Quiet []time.Duration `json:"p99_quiet_ns"`
	Busy  []time.Duration `json:"p99_busy_ns"`
}

// measureLarge puts a large module, then large data: a module is compiled, data is
// decoded and indexed, so their costs have nothing in common. A size beyond what the
// API takes is reported as refused and halved until it is taken, down to 64 KiB: so the
// report also says where the limit is.
func (s *scaling) measureLarge(ctx context.Context, start *starter, small policySpec, k *keys) (out []largeReport, err error) {
	t, err := newTraffic(s.Traffic, small, k)
	if err != nil {
		return nil, err
	}
	sizes := []struct{ module, data int }{{s.module, 0}, {0, s.data}}
	for i := 0; i < len(sizes); i++ {
		size := sizes[i]
		r, err := s.large(ctx, start, small, t, size.module, size.data)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
		if r.Refused != "" && size.module+size.data > 1<<16 {
			sizes = append(sizes, struct{ module, data int }{size.module / 2, size.data / 2})
		}
	}
	return out, nil
}

// largePolicy is beside the policy of the traffic, in the same location: every sidecar
// follows all policies of its location, so a change of one is work for all.
const largePolicy = "policies/large"

// large measures one size, with a server of its own. A refusal by the API is a result;
// any other error ends it.
func (s *scaling) large(
	ctx context.Context, start *starter, small policySpec, t *traffic, module, data int,
) (r largeReport, err error) {
	r.Name = fmt.Sprintf("module of %s", inBytes(module))
	if data > 0 {
		r.Name = fmt.Sprintf("data of %s", inBytes(data))
	}
	s.progress(r.Name)
	f := &fleet{}
	defer f.stop()
	n, err := start.startUnderstudy(ctx, f, start.understudies[0].takingLarge(), small)
	if err != nil {
		return r, err
	}
	if r.Before, err = residentMemory(n.pid()); err != nil {
		return r, err
	}
	if err := n.putLarge(ctx, module, data, 0); err != nil {
		if refused := (*apiError)(nil); errors.As(err, &refused) {
			r.Refused = refused.message
			return r, nil
		}
		return r, err
	}
	closed, _, err := s.closed(ctx, f.targets[0], newSenders(f.targets[0].client, t, s.Inflight))
	if err != nil {
		return r, err
	}
	for round := range s.Rounds {
		if err := s.besideLarge(ctx, f.targets[0], n, t, s.Rate.of(closed.Throughput), module, data, round, &r); err != nil {
			return r, err
		}
	}
	r.After, err = residentMemory(n.pid())
	return r, err
}

// besideLarge measures live latency without and with replacing the large policy, at the
// same rate, one directly after the other. Changes follow each other without a pause:
// the worst that an administrator can do. The last change may end after the loop; it is
// waited for.
func (s *scaling) besideLarge(
	ctx context.Context, live *target, n *node, t *traffic, rate float64, module, data, round int, r *largeReport,
) error {
	senders := newSenders(live.client, t, openSenders)
	r.Quiet = append(r.Quiet, openLoop(ctx, senders, rate, s.Duration, sleepPrecisely).latency.percentile(.99))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	busy := time.Now().Add(s.Duration)
	go func() {
		for i := 1; time.Now().Before(busy); i++ {
			begin := time.Now()
			if err := n.putLarge(ctx, module, data, 1000*round+i); err != nil {
				done <- err
				return
			}
			// Only this goroutine writes Applied, and <-done below orders it before any
			// reader.
			r.Applied = append(r.Applied, time.Since(begin))
		}
		done <- nil
	}()
	o := openLoop(ctx, senders, rate, s.Duration, sleepPrecisely)
	r.Busy = append(r.Busy, o.latency.percentile(.99))
	return <-done
}

// putLarge makes or replaces the large policy and returns when it is enforced. Each
// version is another text, since content that is compiled already would not be compiled
// again.
func (n *node) putLarge(ctx context.Context, module, data, version int) error {
	return n.mutate(ctx, http.MethodPatch, largePolicy+"?allowMissing=true&updateMask=rules,modules,data",
		policyBody(map[string]string{"policy.rego": largeModule(module, version)}, largeData(data, version)))
}

// largeModule has as many rules as fit into size bytes. They look like those of a
// generator: many small rules of one name, no loop over data.
func largeModule(size, version int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package envoy.authz\n\nversion := %d\n\ndefault allow := false\n", version)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "\nallow if {\n\tinput.attributes.request.http.method == \"GET\"\n"+
			"\tstartswith(input.attributes.request.http.path, \"/api/v1/%06d/\")\n"+
			"\tinput.source_principal == \"spiffe://cluster.local/ns/n%d/sa/web\"\n}\n", i, i%50)
	}
	return b.String()
}

// memberBytes is the size of one entry of largeData in a stored policy.
const memberBytes = 119

// largeData has as many entries as fit.
func largeData(size, version int) map[string]any {
	entries := make(map[string]any)
	for i := range size / memberBytes {
		entries[fmt.Sprintf("user-%08d", i)] = map[string]any{
			"tenant": fmt.Sprintf("tenant-%04d", i%1000), "roles": []any{"viewer", "clerk"},
			"team": fmt.Sprintf("team-%04d", i%313), "limit": i % 1000,
		}
	}
	return map[string]any{"version": version, "members": entries}
}

func inBytes(n int) string { return fmt.Sprintf("%.2g MiB", float64(n)/(1<<20)) }

// writeRow writes one row; × is the ratio busy to quiet of each round.
func (l largeReport) writeRow(w io.Writer) {
	if l.Refused != "" {
		fmt.Fprintf(w, "| %s | refused: %s | | | | |\n", l.Name, l.Refused)
		return
	}
	times := make([]float64, len(l.Busy))
	for i := range times {
		times[i] = float64(l.Busy[i]) / float64(l.Quiet[i])
	}
	fmt.Fprintf(w, "| %s | %s | %d MiB | %d MiB | %s | **%s** |\n", l.Name, inMillis(medianOf(l.Applied)),
		l.Before>>20, l.After>>20, inMillis(medianOf(l.Busy)), spreadOfNumbers(times))
}
