package authz

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// filter passes a request or denies it. A failure is a denial. It is immutable and
// safe for concurrent use.
type filter interface {
	// check decides a request by what it reads of its input. It has no effect that
	// anyone else can see: an experiment is decided by the same call.
	check(ctx context.Context, r *Request, input inputSource) Decision
	// reads is what check may read of the input.
	reads() *rego.Reads
	// repeatable reports whether the decision is a function of what is read, up to the
	// moment that it says.
	repeatable() bool
}

// inputSource makes an input document on demand.
type inputSource func() (rego.Input, error)

// filterKinds :: field of the oneof PolicyRule.filter → makes the filter of a rule,
// with what the policy's modules were compiled to. A kind that is not here is
// refused. A new kind is a file of its own and a line here.
var filterKinds = map[protoreflect.Name]func(*rego.Program, *adminpb.PolicyRule) filter{
	"rego": newRegoFilter,
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
	kind := kindOf(r)
	if kind == "" {
		return []Violation{{Field: field, Description: `The rule has no filter. For a Rego rule, set "rego": {}.`}}
	}
	if filterKinds[kind] == nil {
		return []Violation{{
			Field:       field,
			Description: fmt.Sprintf("The filter is of the kind %s, which is not supported yet. Use rego.", kind),
		}}
	}
	return nil
}
