package extservice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// endpoint is one URL of a service, taken apart once for each call.
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

// Call posts a JSON body to a URL of a service and returns its answer. shadow says that
// it is for an experiment, off the request path: that may not be allowed, and has a
// share of its own. It waits for the service, no longer than Timeout, and never for a
// free slot: a service that hangs then costs one decision its time, not all of them.
func (c *Client) Call(ctx context.Context, url *url.URL, body []byte, shadow bool) Answer {
	if shadow && !c.config.ShadowCalls {
		return Answer{Outcome: OutcomeNotCalled}
	}
	begin, to := time.Now(), newEndpoint(url)
	ctx, span := c.config.Tracer.Start(ctx, "external service", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("server.address", to.host), attribute.String("url.path", to.path)))
	defer span.End()
	a := Answer{Outcome: OutcomeBusy}
	if of := (share{to.authority, shadow}); c.bulkhead.enter(of) {
		defer c.bulkhead.leave(of)
		a = c.send(ctx, to, body)
	}
	span.SetAttributes(attribute.String("understudy.external.outcome", string(a.Outcome)))
	if a.Outcome.fails() {
		span.SetStatus(codes.Error, string(a.Outcome))
	}
	c.metrics.called(ctx, to, a.Outcome, begin)
	return a
}

// send sends a call and reads its answer, within the time that is left.
func (c *Client) send(ctx context.Context, to endpoint, body []byte) Answer {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		return Answer{Outcome: OutcomeBroken}
	}
	if err := c.authenticate(request, to); err != nil {
		return Answer{Outcome: OutcomeToken}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "understudy")
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{Outcome: outcomeOf(err)}
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

// tokenFor returns the token of a service; nil if it has none. A key with a port wins
// over one without. The error is errClear if the URL of the policy says http and the
// operator did not write http:// before the host: a policy's author must not choose
// that a token can be read on the way.
func (c Config) tokenFor(to endpoint) (TokenSource, error) {
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
func (c *Client) authenticate(request *http.Request, to endpoint) error {
	source, err := c.config.tokenFor(to)
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
