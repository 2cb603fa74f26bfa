package authz

import (
	"context"
	"net/url"
	"time"

	"understudy/rego"
)

// Facts are what is known of a compiled policy without asking it.
type Facts struct {
	// Reads is what the chain can read of its input.
	Reads *rego.Reads
	// Cacheable says that the decision is a function of that, up to a moment that it names.
	Cacheable bool
	// Deterministic says that the chain always decides alike about the same request.
	Deterministic bool
	// Services is the number of rules that call an external service.
	Services int
	// NoRules says that there are none: the default decision.
	NoRules bool
}

// Facts returns the facts of the policy.
func (p *Policy) Facts() Facts {
	if p.NoOp() {
		return Facts{Reads: &rego.Reads{}, Cacheable: true, Deterministic: true, NoRules: true}
	}
	return Facts{Reads: p.reads.Reads, Cacheable: p.repeatable, Deterministic: p.deterministic, Services: p.services}
}

// Rehearse decides a request as an experiment does: nothing is cached, and nobody is
// notified of the end of a reservation. plain says that no shortcut is taken. It also
// returns the moment from which the decision may be another one for the same input; that
// is not after the request's own moment if it is not known. services may be nil: then none
// is called. It never panics.
func (p *Policy) Rehearse(ctx context.Context, r *Request, plain bool, services Services) (Decision, time.Time) {
	q := question{request: r, services: services, shadow: true, plain: plain}
	var d Decision
	if plain {
		q.input = r.Input
		d = p.run(ctx, q)
	} else {
		d = p.evaluate(ctx, q)
	}
	until := d.until
	d.until = time.Time{}
	return d, until
}

// Blame returns the rule that decides otherwise by shortcut, from no more of the request
// than the policy reads, than from the whole, with its Rego path if it has one. Empty means
// that none does.
func (p *Policy) Blame(ctx context.Context, whole, narrow *Request) (rule, path string) {
	for _, r := range p.rules {
		plain := r.filter.check(ctx, question{request: whole, input: whole.Input, shadow: true, plain: true})
		quick := r.filter.check(ctx, question{request: narrow, input: narrow.Input, shadow: true})
		if sameDecision(quick, plain) {
			continue
		}
		if f, ok := r.filter.(regoFilter); ok {
			path = f.path
		}
		return r.id, path
	}
	return "", ""
}

// AskForExperiment returns the reply of an external service to a rule of an experiment: the
// one that the live policy got to the same call about this request, if there is one.
func AskForExperiment(ctx context.Context, services Services, r *Request, to *url.URL, body []byte) ServiceReply {
	q := question{request: r, services: services, shadow: true}
	return q.ask(ctx, endpoint{to, to.String()}, body)
}
