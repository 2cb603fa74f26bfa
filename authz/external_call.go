package authz

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// endpoint is one URL of a service.
type endpoint struct {
	url, path string
	// name is the last part of the path.
	name string
	// host is the name alone, authority has the port too: both as hostName has them.
	host, authority string
	// clear says that what is sent can be read on the way.
	clear bool
}

func newEndpoint(u *url.URL) endpoint {
	host, port, clear := hostName(u.Hostname()), u.Port(), u.Scheme == "http"
	switch {
	case port == "" && clear:
		port = "80"
	case port == "":
		port = "443"
	}
	return endpoint{
		url: u.String(), path: "/" + strings.TrimPrefix(u.Path, "/"), name: path.Base(u.Path),
		host: host, authority: net.JoinHostPort(host, port), clear: clear,
	}
}

// call is a question to a service.
type call struct {
	endpoint
	body []byte
}

// callKey is the SHA-256 of a call: two calls of one key ask the same.
type callKey [sha256.Size]byte

func (c call) key() callKey {
	h := sha256.New()
	// A URL has no zero byte.
	h.Write(append([]byte(c.url), 0))
	h.Write(c.body)
	return callKey(h.Sum(nil))
}

// answers are those of the services that were asked about one request. The zero value
// is empty. They are safe for concurrent use.
type answers struct {
	mu sync.Mutex
	// known :: call → its answer.
	known map[callKey]answer
}

func (a *answers) find(key callKey) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.known[key]
	return found, ok
}

func (a *answers) keep(key callKey, to answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = make(map[callKey]answer)
	}
	a.known[key] = to
}

var noTracer = noop.NewTracerProvider().Tracer("understudy/authz")

// call makes a call, unless too many are under way, and counts it.
func (e *external) call(ctx context.Context, c call, shadow bool) answer {
	begin := time.Now()
	ctx, span := e.config.Tracer.Start(ctx, "external service", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("server.address", c.host), attribute.String("url.path", c.path)))
	defer span.End()
	a := answer{outcome: callBusy}
	if place := (place{c.authority, shadow}); e.bulkhead.enter(place) {
		defer e.bulkhead.leave(place)
		a = e.send(ctx, c)
	}
	span.SetAttributes(attribute.String("understudy.external.outcome", string(a.outcome)))
	if a.outcome.fails() {
		span.SetStatus(codes.Error, string(a.outcome))
	}
	e.metrics.called(ctx, c, a.outcome, begin)
	return a
}

// send sends a call and reads its answer, within the time that is left.
func (e *external) send(ctx context.Context, c call) answer {
	ctx, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return answer{outcome: callBroken}
	}
	if err := e.authenticate(request, c.endpoint); err != nil {
		return answer{outcome: callToken}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "understudy")
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	response, err := e.client.Do(request)
	if err != nil {
		return answer{outcome: callOutcomeOf(err)}
	}
	defer func() { _ = response.Body.Close() }()
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	return readAnswer(response)
}

// headerToken carries the token (Blazar's external service API).
const headerToken = "X-Auth-Token"

// errClear is the error of a token that would be sent in the clear.
var errClear = errors.New("the token of the host goes over https alone")

// inClear is before the host of a token that may be read on the way.
const inClear = "http://"

// tokenFor returns the token of a service; nil if it has none.
func (c ExternalConfig) tokenFor(to endpoint) (TokenSource, error) {
	for _, name := range []string{to.authority, to.host} {
		if source, ok := c.Tokens[inClear+name]; ok {
			return source, nil
		}
		source, ok := c.Tokens[name]
		switch {
		case ok && to.clear:
			return nil, errClear
		case ok:
			return source, nil
		}
	}
	return nil, nil
}

// authenticate puts the token of the host on a request, if the server's configuration
// has one.
func (e *external) authenticate(request *http.Request, to endpoint) error {
	source, err := e.config.tokenFor(to)
	if source == nil {
		return err
	}
	token, err := source()
	if err != nil {
		return fmt.Errorf("getting the token: %w", err)
	}
	request.Header.Set(headerToken, token)
	return nil
}
