package coverage

// Side is the policy that has a rule.
type Side string

// The sides.
const (
	// Live: the live policy has the rule; it was removed or changed.
	Live Side = "live"
	// Candidate: the candidate has the rule; it was added or changed, or reads data that is
	// not the same.
	Candidate Side = "candidate"
)

// Target is a rule that only one of two policies has.
type Target struct {
	File string
	// Line and Column are where the rule begins. They count from 1.
	Line, Column int
	// Name is the rule's reference, such as data.envoy.authz.allow.
	Name string
	// Decisive are the expressions at which the rule has to fail to count as not true. Of a
	// changed rule they are those that changed: where it fails before, the change was not
	// asked. Of a new rule they are those after its first condition: until that is true
	// once, the rule was never about the traffic. Empty means all.
	Decisive []Span `json:",omitempty"`
	// Always says that the rule has no condition: it cannot be false.
	Always bool `json:",omitempty"`
}

// Span is a part of a module, in bytes.
type Span struct{ Offset, Length int }

// Changes are the targets of two policies.
type Changes struct {
	Live, Candidate []Target `json:",omitempty"`
	// Data are the paths of data that is not the same, such as data.roles.admin, in order.
	Data []string `json:",omitempty"`
	// Truncated says that there are more than are kept.
	Truncated bool `json:",omitempty"`
}

// Seen is what happened to a target.
type Seen uint8

// What happened, in any combination.
const (
	// True: the body was true.
	True Seen = 1 << iota
	// False: it was evaluated, and not true.
	False
)

// Done reports whether nothing more can happen to the target.
func (t Target) Done(s Seen) bool { return s&True != 0 && (t.Always || s&False != 0) }

// Rule is a target with what traffic has shown of it.
type Rule struct {
	Side Side
	// File and Line are where the rule begins; Line counts from 1.
	File string
	Line int
	// Name is the rule's reference, such as data.envoy.authz.allow.
	Name string
	// SeenTrue says that the body was true for some request; SeenFalse that it was evaluated
	// and not true for some request, see [Target]. If neither is set, the rule was never
	// exercised.
	SeenTrue, SeenFalse bool
}
