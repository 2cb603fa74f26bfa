package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// node is a real sidecar, or a peer that only reports.
type node struct {
	// check asks a sidecar; nil for a peer.
	check authv3.AuthorizationClient
	// finish ends it and waits for all that it still writes.
	finish func()

	mu sync.Mutex
	// report is what a peer says of itself.
	report *adminpb.Node
}

func (r *row) location() authz.Location { return authz.Location(plain(r.variables["l"])) }

// locationOf returns the location of a node: n1 is in l1, n1@l2 in l2.
func (r *row) locationOf(name string) authz.Location {
	if _, id, elsewhere := strings.Cut(name, "@"); elsewhere {
		return authz.Location(plain(r.variables["p"]) + "/locations/" + id)
	}
	return r.location()
}

// nodeName returns the resource name of a node.
func (r *row) nodeName(name string) string {
	id, _, _ := strings.Cut(name, "@")
	return string(r.locationOf(name)) + "/nodes/" + id
}

// startNode is `node n1`.
func (r *row) startNode(name string) {
	r.expectSuccess()
	if r.receiver == nil {
		r.receiver = newReceiver(r.T)
	}
	records, flush := r.newProvider()
	sidecar, err := sidecar.New(sidecar.Config{
		Feed: r.store, Scope: authz.Scope{Location: r.locationOf(name)}, Policy: "web", Node: lastSegment(r.nodeName(name)),
		Experiments: sidecar.Experiments{
			Recorder: rehearsal.NewRecorder(records, rehearsal.PreviewLog{}), Rehearsal: supervisortest.New(r.T),
		},
		Logger: r.logs.logger(),
	})
	if err != nil {
		r.fatalf("starting %s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := sidecar.Run(ctx); err != nil {
			r.Errorf("the sidecar %s: %v", name, err)
		}
	})
	finish := sync.OnceFunc(func() { cancel(); running.Wait(); flush() })
	r.Cleanup(finish)
	r.nodes[name] = &node{check: r.serveCheck(sidecar), finish: finish}
	// In an empty location a node that has not loaded it yet reports as much as one that has.
	testkit.Closed(r, name+" is ready", sidecar.Ready())
	r.await("starting "+name, func() string { return r.unreported(name) })
}

// unreported returns what is missing until the location knows the node.
func (r *row) unreported(name string) string {
	reports, err := r.store.Nodes(r.Context(), r.locationOf(name))
	if err != nil {
		return err.Error()
	}
	for _, n := range reports {
		if n.Node.Name == r.nodeName(name) && n.Node.AppliedSequence >= r.head(r.locationOf(name)) {
			return ""
		}
	}
	return "the node has not reported"
}

// head is the sequence of a location's last change.
func (r *row) head(location authz.Location) int64 {
	update, err := r.store.Load(r.Context(), authz.Scope{Location: location})
	if err != nil {
		r.fatalf("loading the location: %v", err)
	}
	return update.Cursor.Sequence
}

// serveCheck serves ext_authz and returns a client of it.
func (r *row) serveCheck(sidecar *sidecar.Sidecar) authv3.AuthorizationClient {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, extauthz.New(sidecar))
	go func() { _ = server.Serve(listener) }()
	r.Cleanup(server.Stop)
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = connection.Close() })
	return authv3.NewAuthorizationClient(connection)
}

// stopNode is `stop n1`. It returns when everything of the node is written.
func (r *row) stopNode(name string) {
	r.expectSuccess()
	n := r.nodes[name]
	if n == nil {
		r.fatalf("there is no node %s", name)
	}
	n.finish()
	delete(r.nodes, name)
}

// finishNodes stops the sidecars and checks that no record came after the last
// LOGS.
func (r *row) finishNodes() {
	for name := range r.nodes {
		r.stopNode(name)
	}
	for id, n := range r.counted {
		if got := len(r.receiver.of(id)); got != n {
			r.errorf("%d records of %s in the end; the last LOGS saw %d", got, id, n)
		}
	}
}

// everything is the sequence of a peer that has applied whatever will come.
const everything = 1 << 60

// newProvider returns a logger provider that exports to the row's receiver.
func (r *row) newProvider() (provider *sdklog.LoggerProvider, flush func()) {
	exporter, err := otlploggrpc.New(r.Context(),
		otlploggrpc.WithEndpoint(r.receiver.address), otlploggrpc.WithInsecure())
	if err != nil {
		r.Fatal(err)
	}
	provider = sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter,
		sdklog.WithExportInterval(10*time.Millisecond))))
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			r.Errorf("flushing the records: %v", err)
		}
	}
}

// expectLogs is `LOGS e1 3`.
func (r *row) expectLogs(rest string) {
	r.expectSuccess()
	id, count, _ := strings.Cut(r.expand(rest, plain), " ")
	want, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || r.receiver == nil {
		r.fatalf("LOGS EXPERIMENT NUMBER, after a node was started")
	}
	r.await("LOGS "+rest, func() string {
		if got := len(r.receiver.of(id)); got < want {
			return fmt.Sprintf("%d records", got)
		}
		return ""
	})
	if got := len(r.receiver.of(id)); got > want {
		r.fatalf("%d records of %s instead of %d", got, id, want)
	}
	r.counted[id] = want
}

// showRecord is `record e1`.
func (r *row) showRecord(id string) {
	r.expectSuccess()
	id = r.expand(id, plain)
	records := r.receiver.of(id)
	if len(records) == 0 {
		r.fatalf("there is no record of %s", id)
	}
	r.document = records[len(records)-1]
}

// checkNoLog is `nolog secret`.
func (r *row) checkNoLog(text string) {
	for _, record := range r.receiver.all() {
		if strings.Contains(asJSON(record), text) {
			r.fatalf("a record has %q:\n%s", text, asJSON(record))
		}
	}
}

// peer is `peer n2 lags`, follows, refuses or leaves. A peer goes on reporting
// the same.
func (r *row) peer(rest string) {
	r.expectSuccess()
	name, what, _ := strings.Cut(rest, " ")
	what, about, _ := strings.Cut(what, " ")
	p := r.nodes[name]
	if p == nil {
		p = r.newPeer(name)
	}
	p.mu.Lock()
	switch what {
	case "lags":
		p.report.AppliedSequence = r.head(r.locationOf(name))
	case "follows":
		p.report.AppliedSequence, p.report.Error = everything, nil
	case "has":
		p.report.AppliedSequence, p.report.Policies = everything, strings.Fields(r.expand(about, plain))
	case "refuses":
		resource, why, _ := strings.Cut(r.expand(about, plain), " ")
		p.report.AppliedSequence, p.report.Error = everything, notApplied(resource, why, everything)
	case "leaves":
		p.mu.Unlock()
		r.stopNode(name)
		return
	default:
		r.fatalf("peer NAME lags|follows|has|refuses|leaves")
	}
	p.mu.Unlock()
	r.beat(p)
}

// newPeer starts the heartbeats of a peer.
func (r *row) newPeer(name string) *node {
	p := &node{report: &adminpb.Node{
		Name: r.nodeName(name), CreateTime: timestamppb.Now(),
	}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				r.beat(p)
			}
		}
	})
	p.finish = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := r.store.Leave(context.WithoutCancel(r.Context()), p.report.Name); err != nil {
			r.Errorf("peer %s leaves: %v", name, err)
		}
	})
	r.Cleanup(p.finish)
	r.nodes[name] = p
	return p
}

// notApplied is the error of a node that could not apply a resource, as a real one
// reports it.
func notApplied(resource, why string, sequence int64) *statuspb.Status {
	st, err := status.New(codes.FailedPrecondition, resource+": "+why).WithDetails(&errdetails.ErrorInfo{
		Reason: authz.ReasonNotApplied, Domain: adminpb.ErrorDomain,
		Metadata: map[string]string{"resource": resource, "sequence": strconv.FormatInt(sequence, 10)},
	})
	if err != nil {
		st = status.New(codes.Internal, err.Error())
	}
	return st.Proto()
}

// beat reports a peer.
func (r *row) beat(p *node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := r.store.Heartbeat(context.WithoutCancel(r.Context()), p.report); err != nil &&
		!errors.Is(err, context.Canceled) {
		r.Errorf("a heartbeat of %s: %v", p.report.Name, err)
	}
}
