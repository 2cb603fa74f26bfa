package telemetry_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"understudy/cmd/testkit"
)

// answer is how a collector answers.
type answer string

const (
	takes    answer = "takes all"
	busy     answer = "is not available" // 503, or UNAVAILABLE
	hangs    answer = "does not answer"
	refuses  answer = "refuses all" // 400, or INVALID_ARGUMENT
	takesNot answer = "takes all but one of a batch"
)

// collector receives records over OTLP, and is away when a test wants it to be. It is
// safe for concurrent use.
type collector struct {
	collogspb.UnimplementedLogsServiceServer
	protocol string // grpc or http/protobuf
	address  string
	listens  bool
	tls      *tls.Config // nil without TLS

	mu     sync.Mutex
	answer answer
	// got :: the body of a record → how often it came.
	got map[string]int
	// header is Authorization.
	header string
	// latest is the batch that was taken last.
	latest *collogspb.ExportLogsServiceRequest
	// asked gets each answer that is not to take a batch; arrived is signalled with each
	// batch that was taken.
	asked, arrived chan struct{}
}

// newCollector returns a collector whose port is known, at which nobody listens yet.
func newCollector(protocol string) *collector {
	return &collector{
		protocol: protocol, address: testkit.FreeAddress(), answer: takes, got: map[string]int{},
		asked: make(chan struct{}, 1000), arrived: make(chan struct{}, 1),
	}
}

// listen serves at the collector's port until the end of the test.
func (c *collector) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	c.listens = true
	if c.protocol == "grpc" {
		server := grpc.NewServer(c.options()...)
		collogspb.RegisterLogsServiceServer(server, c)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		return
	}
	server := &http.Server{Handler: c}
	if c.tls != nil {
		l = tls.NewListener(l, c.tls)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

// options are those of the server of gRPC.
func (c *collector) options() []grpc.ServerOption {
	if c.tls == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(c.tls))}
}

// scheme is that of the collector's URL.
func (c *collector) scheme() string {
	if c.tls == nil {
		return "http://"
	}
	return "https://"
}

// authorization is the header of that name that came last.
func (c *collector) authorization() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// now changes the answer.
func (c *collector) now(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
}

// count returns how many different records came.
func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// Export answers over gRPC.
func (c *collector) Export(ctx context.Context, r *collogspb.ExportLogsServiceRequest) (*collogspb.ExportLogsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), "")
	if c.answer != takes {
		select {
		case c.asked <- struct{}{}:
		default:
		}
	}
	switch c.answer {
	case busy:
		return nil, status.Error(codes.Unavailable, "busy")
	case refuses:
		return nil, status.Error(codes.InvalidArgument, "refused")
	case hangs:
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return nil, ctx.Err()
	}
	c.latest = r
	for _, resource := range r.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, record := range scope.LogRecords {
				c.got[record.GetBody().GetStringValue()]++
			}
		}
	}
	select {
	case c.arrived <- struct{}{}:
	default:
	}
	if c.answer == takesNot {
		return &collogspb.ExportLogsServiceResponse{PartialSuccess: &collogspb.ExportLogsPartialSuccess{RejectedLogRecords: 1, ErrorMessage: "not one"}}, nil
	}
	return &collogspb.ExportLogsServiceResponse{}, nil
}

// ServeHTTP answers over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := readRequest(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ctx := metadata.NewIncomingContext(r.Context(), metadata.Pairs("authorization", r.Header.Get("Authorization")))
	response, err := c.Export(ctx, request)
	switch {
	case errors.Is(err, r.Context().Err()) && err != nil:
	case status.Code(err) == codes.Unavailable:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		content, _ := proto.Marshal(response)
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(content)
	}
}

// readRequest reads what was sent over HTTP.
func readRequest(r *http.Request) (*collogspb.ExportLogsServiceRequest, error) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		body = unzipped
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	request := &collogspb.ExportLogsServiceRequest{}
	return request, proto.Unmarshal(content, request)
}
