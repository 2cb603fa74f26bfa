package authz

import (
	"context"
	"crypto/sha256"
	"net/url"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// Services calls the external services that rules ask. It is safe for concurrent use.
type Services interface {
	// Call posts body, which is JSON, to a URL of a service, and returns its reply. shadow
	// says that an experiment asks. It waits until then, or until ctx is done.
	Call(ctx context.Context, to *url.URL, body []byte, shadow bool) ServiceReply
	// Reused counts a reply that an experiment took from the live policy.
	Reused(ctx context.Context)
}

// ServiceOutcome is what a reply of an external service means.
type ServiceOutcome uint8

// The outcomes.
const (
	// ServiceFailed: the service gave no decision.
	ServiceFailed ServiceOutcome = iota
	// ServicePasses: the service lets the request pass.
	ServicePasses
	// ServiceDenies: the service denies. Nothing overrules that.
	ServiceDenies
	// ServiceNotCalled: no call was allowed.
	ServiceNotCalled
	// ServiceCanceled: the caller left before there was a reply.
	ServiceCanceled
)

// ServiceReply is what an external service said about a request.
type ServiceReply struct {
	Outcome ServiceOutcome
	// Message says why it denies, fit for one line.
	Message string
}

// ask returns the reply to a call. For an experiment, that is the reply that the live
// policy got to the same call, if there is one.
func (q evaluation) ask(ctx context.Context, to endpoint, body []byte) ServiceReply {
	if q.Services == nil {
		return ServiceReply{Outcome: ServiceNotCalled}
	}
	key := newCallKey(to, body)
	if q.Shadow {
		if known, ok := q.request.replies.find(key); ok {
			q.Services.Reused(ctx)
			return known
		}
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, q.request.SpanContext(trace.SpanContext{}))
	}
	reply := q.Services.Call(ctx, to.url, body, q.Shadow)
	if reply.Outcome != ServiceNotCalled {
		q.request.replies.keep(key, reply)
	}
	return reply
}

// callKey is the SHA-256 of a call: two calls of one key ask the same.
type callKey [sha256.Size]byte

func newCallKey(to endpoint, body []byte) callKey {
	h := sha256.New()
	// A URL has no zero byte.
	h.Write(append([]byte(to.text), 0))
	h.Write(body)
	return callKey(h.Sum(nil))
}

// replies are those of the services that were asked about one request. The zero value
// is empty. They are safe for concurrent use.
type replies struct {
	// asking is held by the experiment that asks.
	asking sync.Mutex

	mu sync.Mutex
	// known :: call → its reply.
	known map[callKey]ServiceReply
}

func (r *replies) find(key callKey) (ServiceReply, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.known[key]
	return found, ok
}

func (r *replies) keep(key callKey, reply ServiceReply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[callKey]ServiceReply)
	}
	r.known[key] = reply
}

// AskForExperiment returns the reply of an external service to a rule of an experiment: the
// one that the live policy got to the same call about this request, if there is one.
func AskForExperiment(ctx context.Context, services Services, r *Request, to *url.URL, body []byte) ServiceReply {
	// Experiments that ask the same at the same time have it called once.
	r.replies.asking.Lock()
	defer r.replies.asking.Unlock()
	q := evaluation{Conditions: Conditions{Services: services, Shadow: true}, request: r}
	return q.ask(ctx, endpoint{to, to.String()}, body)
}

// KnownReply returns the reply that an external service gave to a call about this request. No
// service is called, and nothing is counted.
func KnownReply(r *Request, to *url.URL, body []byte) ServiceReply {
	if known, ok := r.replies.find(newCallKey(endpoint{to, to.String()}, body)); ok {
		return known
	}
	return ServiceReply{Outcome: ServiceNotCalled}
}
