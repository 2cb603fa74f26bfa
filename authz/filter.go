package authz

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// filter passes a request or denies it. A failure is a denial. It is immutable and
// safe for concurrent use. It is asked about every operation: about the end of a
// reservation only to be notified of it.
type filter interface {
	// check decides a request by what it reads of its input. It has no effect here that
	// anyone else can see: an experiment is decided by the same call.
	check(ctx context.Context, q evaluation) Decision
	// mayRead reports whether check may read something at, above or below a place of the input.
	mayRead(place ...string) bool
	// recordable reports whether the decision on Envoy's checks follows from what is asked of the request.
	recordable() bool
	// deterministic reports whether the decision is always the same about the same
	// request.
	deterministic() bool
}

// inputSource makes an input document on demand.
type inputSource func(*ReadBudget) (rego.Input, error)

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
var pass = Decision{Effect: Allow, Plain: true, Value: true}
