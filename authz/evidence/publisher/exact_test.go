package publisher_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/compactor"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/authz/evidence/publisher"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/cmd/testkit"
)

const (
	location = authz.Location("projects/p1/locations/l1")
	etag     = "etag-1"
	// counting, in the environment of this test binary, makes it a node: what it has is the
	// store and the ID of the node.
	counting = "UNDERSTUDY_TEST_COUNTING"
)

var tried = admin.EvidenceName{Experiment: admin.Key(location + "/policies/web/experiments/e"), UID: "uid-1"}

// differences are what the requests of these tests come to.
var differences = []authz.Difference{
	authz.Unchanged, authz.NewlyDenied, authz.NewlyAllowed, authz.ResponseChanged, authz.ExperimentFailed, authz.LiveFailed,
}

// counts :: place in differences → requests.
type counts [6]int64

func (c *counts) add(more counts) {
	for i, n := range more {
		c[i] += n
	}
}

func (c counts) sum() (n int64) {
	for _, of := range c {
		n += of
	}
	return n
}

// countsOf returns the counts of evidence, all pairs together.
func countsOf(e *evidencepb.Evidence) (c counts) {
	for _, p := range append(e.GetPairs(), e.GetEarlier()) {
		n := p.GetCounts()
		c.add(counts{
			n.GetBothAllow() + n.GetBothDeny(), n.GetNewlyDenied(), n.GetNewlyAllowed(), n.GetAllowedChanged() + n.GetDeniedChanged(), n.GetAllowedFailed() + n.GetDeniedFailed(), n.GetLiveFailed(),
		})
	}
	return c
}

func TestMain(m *testing.M) {
	if arguments := os.Getenv(counting); arguments != "" {
		store, node, _ := strings.Cut(arguments, " ")
		if err := count(store, node); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// openStore opens a store by its URL, or the file of one.
func openStore(at string) (storetest.Both, func() error, error) {
	if strings.HasPrefix(at, "/") {
		s, err := boltstore.Open(at)
		return s, func() error { return s.Close() }, err
	}
	s, err := redisstore.Open(at)
	return s, func() error { return s.Close() }, err
}

// telling is a store that says what of a node was published, once it was.
type telling struct{ storetest.Both }

func (s telling) Publish(ctx context.Context, node string, due []authz.PublishedEvidence) (authz.Publication, error) {
	out, err := s.Both.Publish(ctx, node, due)
	if err != nil || len(out.Refused) > 0 {
		return out, err
	}
	for _, d := range due {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(d.Value, e); err != nil {
			return out, err
		}
		fmt.Println("published", strings.Trim(fmt.Sprint(countsOf(e)), "[]"))
	}
	return out, nil
}

// count counts the requests that come on standard input, each a place in differences, says
// so, and publishes them, until it is asked to end.
func count(at, node string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, closeStore, err := openStore(at)
	if err != nil {
		return err
	}
	defer func() { _ = closeStore() }()
	if _, err := store.Heartbeat(ctx, &adminpb.Node{Name: location.Node(node)}); err != nil {
		return err
	}
	ledger := evidence.NewLedger(time.Now())
	tally := ledger.Tally(evidence.Content{Experiment: string(tried.Experiment), UID: tried.UID, Etag: etag}, nil)
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live"}})
	p := &publisher.Publisher{
		Feed: telling{store}, Node: location.Node(node), Ledger: ledger, Intervals: &publisher.Intervals{}, Logger: slog.New(slog.DiscardHandler),
	}
	go countLines(os.Stdin, tally)
	p.Run(ctx)
	p.Finish(context.WithoutCancel(ctx))
	return store.Leave(context.WithoutCancel(ctx), location.Node(node))
}

func countLines(lines io.Reader, tally *evidence.Tally) {
	for in := bufio.NewScanner(lines); in.Scan(); {
		var kind, n int
		if _, err := fmt.Sscan(in.Text(), &kind, &n); err != nil {
			fmt.Println(err)
			return
		}
		countOne(tally, kind, n)
		fmt.Println("counted", kind)
	}
}

// countOne counts a request, whose path and caller go by n.
func countOne(tally *evidence.Tally, kind, n int) {
	r := &authz.Request{Method: "GET", Path: fmt.Sprintf("/orders/%d", n), Principal: fmt.Sprint("caller-", n%7), Time: time.Now()}
	denied := authz.Decision{Effect: authz.Deny, Reason: "no such role"}
	tally.Count("live", evidence.Comparison{
		Request: r, Pattern: tally.Patterns().Of(evidence.Method(r.Method), r.Path), Outcome: evidence.NewOutcome(differences[kind], denied, denied, nil),
	})
}

// life is a process that counts, from its start to its end.
type life struct {
	t       *testing.T
	process *exec.Cmd
	in      io.WriteCloser
	lines   *bufio.Scanner
	// acknowledged is what it said it has counted, and published what it said is stored.
	acknowledged, published counts
}

func start(t *testing.T, store, node string) *life {
	t.Helper()
	l := &life{t: t, process: exec.Command(os.Args[0])}
	l.process.Env, l.process.Stderr = append(os.Environ(), counting+"="+store+" "+node), os.Stderr
	out, errOut := l.process.StdoutPipe()
	in, errIn := l.process.StdinPipe()
	if err := cmp.Or(errOut, errIn, testkit.Start(l.process)); err != nil {
		t.Fatal(err)
	}
	l.in, l.lines = in, bufio.NewScanner(out)
	return l
}

// ask sends requests, which the process counts in its own time.
func (l *life) ask(kinds []int) {
	var b strings.Builder
	for i, kind := range kinds {
		fmt.Fprintln(&b, kind, i)
	}
	if _, err := io.WriteString(l.in, b.String()); err != nil {
		l.t.Fatal(err)
	}
}

// next reads a line; it reports false at the end of the process.
func (l *life) next() bool {
	if !l.lines.Scan() {
		return false
	}
	word, rest, _ := strings.Cut(l.lines.Text(), " ")
	switch word {
	case "counted":
		var kind int
		if _, err := fmt.Sscan(rest, &kind); err != nil {
			l.t.Fatal(err)
		}
		l.acknowledged[kind]++
	case "published":
		c := &l.published
		if _, err := fmt.Sscan(rest, &c[0], &c[1], &c[2], &c[3], &c[4], &c[5]); err != nil {
			l.t.Fatal(err)
		}
	default:
		l.t.Errorf("the process says %q", l.lines.Text())
	}
	return true
}

// until reads lines until something holds.
func (l *life) until(holds func() bool) {
	l.t.Helper()
	for !holds() {
		if !l.next() {
			l.t.Fatal("the process has ended by itself")
		}
	}
}

// end ends the process by a signal and reads what it said up to then.
func (l *life) end(by syscall.Signal) {
	if err := l.process.Process.Signal(by); err != nil {
		l.t.Fatal(err)
	}
	for l.next() {
	}
	if err := l.process.Wait(); err != nil && by != syscall.SIGKILL {
		l.t.Errorf("the process: %v", err)
	}
}

// newExperiment stores the experiment.
func newExperiment(t *testing.T, store admin.Store) {
	t.Helper()
	put, err := admin.NewPut(tried.Experiment, etag, &adminpb.PolicyExperiment{
		Name: string(tried.Experiment), Uid: tried.UID, Etag: etag,
	})
	if err == nil {
		_, err = store.Commit(t.Context(), admin.Txn{ID: "try", Project: "p1", Writes: []admin.Write{put}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// requests is a number of requests of all kinds in random order.
func requests(random *rand.Rand, n int) []int {
	out := make([]int, n)
	for i := range out {
		// Most are unchanged, as they are.
		out[i] = max(0, random.IntN(12)-6)
	}
	return out
}

// read returns all that is counted, compacted or not.
func read(t *testing.T, store admin.Store) counts {
	t.Helper()
	stored, err := store.Evidence(t.Context(), tried)
	if err != nil {
		t.Fatal(err)
	}
	all := evidence.NewSum(evidence.Content{Experiment: string(tried.Experiment), UID: tried.UID, Etag: etag}, nil)
	for _, value := range append([][]byte{stored.Compacted}, values(stored.Tallies)...) {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(value, e); err != nil {
			t.Fatal(err)
		}
		if len(value) > 0 {
			all.Add(e)
		}
	}
	sum := all.Evidence()
	c := countsOf(sum)
	checkGroups(t, sum, c)
	return c
}

func values(tallies []admin.TallyRecord) (out [][]byte) {
	for _, t := range tallies {
		out = append(out, t.Value)
	}
	return out
}

// checkGroups: the groups and what there was no room for are all that differ, and the
// endpoints all requests.
func checkGroups(t *testing.T, e *evidencepb.Evidence, c counts) {
	t.Helper()
	var differing, all int64
	for _, p := range e.GetPairs() {
		for _, g := range p.GetGroups() {
			differing += g.GetCount()
		}
		for _, n := range p.GetOther() {
			differing += n
		}
		for _, at := range p.GetEndpoints() {
			all += at.GetCount()
		}
		all += p.GetOtherEndpoints()
	}
	if all != c.sum() || differing != c.sum()-c[0] {
		t.Errorf("endpoints have %d requests and groups %d, of %d that were compared and %d that differ", all, differing, c.sum(), c.sum()-c[0])
	}
}

// run has nodes count requests, by processes that are killed and started again, and returns
// what they said: all that they acknowledged, and what of it they said was published.
func run(t *testing.T, store string, nodes, lives, each int) (acknowledged, published counts) {
	random := rand.New(rand.NewPCG(1, 2))
	var last []*life
	for round := range lives {
		var running []*life
		for node := range nodes {
			l := start(t, store, fmt.Sprint("n", node))
			l.ask(requests(random, each/2))
			running = append(running, l)
		}
		for _, l := range running {
			l.until(func() bool { return l.published.sum() > 0 })
			l.ask(requests(random, each-each/2))
			l.until(func() bool { return l.acknowledged.sum() == int64(each) })
		}
		if round == lives-1 {
			last = running
			break
		}
		for _, l := range running {
			l.end(syscall.SIGKILL)
			acknowledged.add(l.acknowledged)
			published.add(l.published)
		}
	}
	for _, l := range last {
		l.end(syscall.SIGTERM)
		acknowledged.add(l.acknowledged)
		if l.published != l.acknowledged {
			t.Errorf("a process that was asked to end has counted %v and published %v", l.acknowledged, l.published)
		}
		published.add(l.published)
	}
	return acknowledged, published
}

// check checks that what was published is there, and no more than was acknowledged.
func check(t *testing.T, what string, got, acknowledged, published counts) {
	t.Helper()
	for i, n := range got {
		if n < published[i] || n > acknowledged[i] {
			t.Errorf("%s: %d are %s; published were %d, acknowledged %d", what, n, differences[i], published[i], acknowledged[i])
		}
	}
}

// TestExact: of 20,000 requests that two nodes count, each counts once in the evidence, but
// for those after the last publication of a process that was killed. They publish as the
// user of Redis that sidecars have.
func TestExact(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedisWithUsers(t, "../../../deploy/redis/users.conf")
	store, closeStore, err := openStore(server.URLOf(url.UserPassword(storetest.ControlUser, storetest.ControlPassword)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeStore() })
	newExperiment(t, store)
	acknowledged, published := run(t, server.URLOf(url.UserPassword(storetest.SidecarUser, storetest.SidecarPassword)), 2, 4, 2500)
	if acknowledged.sum() != 20_000 {
		t.Errorf("%d requests were acknowledged", acknowledged.sum())
	}
	compacted(t, store, acknowledged, published)
}

// TestExactFile is the same with a file, which one process has at a time.
func TestExactFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "understudy.db")
	do := func(f func(storetest.Both)) {
		store, closeStore, err := openStore(path)
		if err != nil {
			t.Fatal(err)
		}
		f(store)
		if err := closeStore(); err != nil {
			t.Fatal(err)
		}
	}
	do(func(store storetest.Both) { newExperiment(t, store) })
	acknowledged, published := run(t, path, 1, 4, 5000)
	do(func(store storetest.Both) { compacted(t, store, acknowledged, published) })
}

// compacted checks the evidence before and after what is over of it was compacted.
func compacted(t *testing.T, store storetest.Both, acknowledged, published counts) {
	t.Helper()
	before := read(t, store)
	check(t, "published", before, acknowledged, published)
	s := &compactor.Compactor{Store: store, Project: "p1", Logger: slog.New(slog.DiscardHandler)}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, err := store.Evidence(t.Context(), tried)
	if err != nil || stored.Version == 0 {
		t.Errorf("nothing was compacted: %+v, %v", stored, err)
	}
	if after := read(t, store); after != before {
		t.Errorf("compacted, %v are %v", before, after)
	}
}
