package audit

import "go.opentelemetry.io/otel/attribute"

// DeltaAction is what becomes of a member of a binding, as google.iam.v1.BindingDelta names it.
type DeltaAction string

// The actions.
const (
	Add    DeltaAction = "ADD"
	Remove DeltaAction = "REMOVE"
)

// BindingDelta is a role that a change of bindings gives to a member, or takes from one
// (google.iam.v1.BindingDelta).
type BindingDelta struct {
	Action       DeltaAction
	Role, Member string
}

// FieldChange is a field of a configuration, or of an acceptance, that a change sets.
type FieldChange struct {
	// Field is its path, in snake_case.
	Field string
	// Before and After are its values; both are empty where only the name is for records.
	Before, After string
}

// maxDeltas is the number of deltas in one event. All have to be in the log, or somebody could
// hide one behind many, and a batch of events of full size has to fit into what a collector
// takes, which is 4 MiB: 128 events, each with so many members of the largest size.
const maxDeltas = 25

// events is how many events the entry takes.
func (e *Entry) events() int {
	return max(1, (len(e.bindings)+maxDeltas-1)/maxDeltas)
}

// deltas adds some changes of bindings.
func (b *builder) deltas(deltas []BindingDelta) {
	if len(deltas) == 0 {
		return
	}
	values := make([]attribute.Value, len(deltas))
	for i, d := range deltas {
		values[i] = texts("action", string(d.Action), "role", d.Role, "member", d.Member)
	}
	b.attributes = append(b.attributes, attribute.KeyValue{Key: AttributeBindingDeltas, Value: attribute.SliceValue(values...)})
}

// fields adds the changes of a configuration.
func (b *builder) fields(changes []FieldChange) {
	if len(changes) == 0 {
		return
	}
	values := make([]attribute.Value, len(changes))
	for i, c := range changes {
		values[i] = texts("field", c.Field, "before", c.Before, "after", c.After)
	}
	b.attributes = append(b.attributes, attribute.KeyValue{Key: AttributeChanges, Value: attribute.SliceValue(values...)})
}
