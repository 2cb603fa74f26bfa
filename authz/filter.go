package authz

import (
	"context"
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/reflect/protoreflect"

	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics"
	"understudy/rego"
)

// filter passes a request or denies it. A failure is a denial. It is immutable and
// safe for concurrent use. It is asked about every operation: about the end of a
// reservation only to be notified of it.
type filter interface {
	// check decides a request by what it reads of its input. It has no effect here that
	// anyone else can see: an experiment is decided by the same call.
	check(ctx context.Context, q question) Decision
	// reads is what check may read of the input.
	reads() *rego.Reads
	// repeatable reports whether the decision is a function of what is read, up to the
	// moment that it says.
	repeatable() bool
	// deterministic reports whether the decision is always the same about the same
	// request.
	deterministic() bool
}

// question is a request as one chain is asked about it.
type question struct {
	request *Request
	// input makes what the chain reads of the input document.
	input inputSource
	// reading bounds what that may cost; nil bounds nothing.
	reading *Reading
	// services calls external services. If it is nil, none is called.
	services Services
	// notifyFailed is called with a rule that could not be notified of the end of a
	// reservation, and the decision that it failed in; nil if nobody is to know.
	notifyFailed func(ctx context.Context, r *Request, rule string, d Decision)
	// shadow says that an experiment is asked, beside the traffic.
	shadow bool
	// plain says that no shortcut is taken in an evaluation.
	plain bool
	// lookups counts whether the decision is remembered; nil if that is not counted.
	lookups *lookups
	// name is the resource whose chain is asked, for logs; empty if that is not known.
	name string
	// pace is that of a live decision; nil for one beside the traffic.
	pace *pace
	// panics reports what panics; nil if none is reported.
	panics *diagnostics.Panics
}

// about says in a log what was asked: nothing of the request but its ID.
func (q question) about(rule string) []slog.Attr {
	return []slog.Attr{
		slog.String("policy", q.name), slog.String("rule", rule), slog.String("decision_id", q.request.ID),
	}
}

// inputSource makes an input document on demand.
type inputSource func(*Reading) (rego.Input, error)

// filterKind is a kind of filters.
type filterKind struct {
	// new makes the filter of a rule, with what the policy's modules were compiled to.
	new func(*rego.Program, *adminpb.PolicyRule) filter
	// problems returns what is wrong with the filter of a rule at a field of the policy;
	// nil means that nothing can be.
	problems func(field string, r *adminpb.PolicyRule) []Violation
}

// filterKinds :: field of the oneof PolicyRule.filter → the kind. One that is not
// here is refused. A new kind is a file of its own and a line here.
var filterKinds = map[protoreflect.Name]filterKind{
	"rego":                       {new: newRegoFilter},
	"maximum_reservation_length": {new: newLengthFilter, problems: lengthProblems},
	"external_service":           {new: newExternalFilter, problems: externalProblems},
}

// kindOf returns the kind of a rule's filter; empty if it has none.
func kindOf(r *adminpb.PolicyRule) protoreflect.Name {
	m := r.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("filter"))
	if field == nil {
		return ""
	}
	return field.Name()
}

// checkFilter checks that a rule's filter can be made.
func checkFilter(field string, r *adminpb.PolicyRule) []Violation {
	name := kindOf(r)
	if name == "" {
		return []Violation{{Field: field, Description: `The rule has no filter. For a Rego rule, set "rego": {}.`}}
	}
	kind, ok := filterKinds[name]
	switch {
	case !ok:
		return []Violation{{
			Field:       field,
			Description: fmt.Sprintf("The filter is of the kind %s, which is not supported yet. Use rego.", name),
		}}
	case kind.problems == nil:
		return nil
	}
	return kind.problems(field+"."+string(name), r)
}

// pass is the decision of a filter that is no Rego: it has nothing to add.
var pass = Decision{Verdict: Allow, Plain: true, Value: true, until: forever}
