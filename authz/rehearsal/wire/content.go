package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"understudy/authz"
	"understudy/rego/change"
	"understudy/rego/explain"
	"understudy/rego/regotest"
)

// Hello is what the child has to know before anything else.
type Hello struct {
	// Build is the same in both processes, or the child ends.
	Build string
	// Memory is how much the child may use, in bytes; zero means that it is not bounded.
	Memory int64
	// CompileTime bounds a compilation, in processor time of the child.
	CompileTime time.Duration
	// StuckTime bounds how long an evaluation goes on after it was cancelled, in processor
	// time of the child.
	StuckTime time.Duration
	// Descriptors is the marshalled descriptor set by which the bodies of gRPC requests are
	// read; empty if they are not.
	Descriptors []byte
	// DuplicateKeys says that JSON bodies with an object that has a key twice are read.
	DuplicateKeys bool
	// BodyMemory is how much memory reading bodies may take for live decisions, in bytes; zero
	// is the default.
	BodyMemory int64
	// Instrumented says that the child takes more memory of the system than Go's runtime counts.
	Instrumented bool
}

// Ready is what the child says of itself before it reads anything but Hello.
type Ready struct {
	// Unconfined is why the child could not be confined; empty if it is.
	Unconfined string `json:",omitempty"`
}

// Compiled is what became of a policy.
type Compiled struct {
	Facts authz.Facts
	// Refused is why it does not compile; nil if it does.
	Refused *Refused
}

// Refused is the error of a policy that does not compile, or whose tests could not be run.
type Refused struct {
	// Violations are those of an *authz.CompileError; if there are none, Text is the error.
	Violations []authz.Violation
	Text       string
}

// Err returns the error: an *authz.CompileError if there are violations. A nil Refused is no
// error.
func (r *Refused) Err() error {
	switch {
	case r == nil:
		return nil
	case len(r.Violations) > 0:
		return &authz.CompileError{Violations: r.Violations}
	}
	return errors.New(r.Text)
}

// TestRequest is a policy whose tests are to be run.
type TestRequest struct {
	// Policy is the marshalled policy.
	Policy []byte
	// Time bounds all tests, and Timeout each.
	Time, Timeout time.Duration
}

// Tested is what became of tests.
type Tested struct {
	Report regotest.Report
	// OutOfTime says that the time for all tests was over.
	OutOfTime bool
	Refused   *Refused
}

// Blamed is the rule that decides otherwise by shortcut than without; its ID is empty if
// there is none.
type Blamed struct{ Rule, Path string }

// TraceRequest says which rule is to be evaluated with a trace.
type TraceRequest struct {
	// Path is that of a Rego rule that the policy asks.
	Path string
	// Data says that the places of data are asked for which make a difference, too.
	Data bool `json:",omitempty"`
}

// Traced is what was seen in an evaluation.
type Traced struct {
	Trace explain.Trace
	// Failed says why there is none; empty if there is one. It has no values.
	Failed string `json:",omitempty"`
	// Unlisted is as that of Shown.
	Unlisted bool `json:",omitempty"`
}

// CompareRequest is two policies, each marshalled.
type CompareRequest struct {
	Live, Candidate []byte
	// Effective says that only what has an effect counts.
	Effective bool `json:",omitempty"`
	// Time bounds the comparison.
	Time time.Duration
}

// Compared is in what two policies differ.
type Compared struct {
	List change.List
	// Refused is why that is not known; nil if it is.
	Refused *Refused
}

// ItemsRequest is a live policy, with which that of a lane is to be compared.
type ItemsRequest struct {
	// Live is the marshalled policy.
	Live []byte
	// Timeout bounds it.
	Timeout time.Duration
}

// Listed is in what two policies differ, as far as is needed to count what requests show.
type Listed struct {
	// Digest is that of the list.
	Digest []byte
	// Conditions says of each item whether it is a condition.
	Conditions []bool
	// Failed says why that is not known; empty if it is.
	Failed string `json:",omitempty"`
}

// ShowRequest says what is to be found out of a request.
type ShowRequest struct {
	// Digest is that of the list.
	Digest []byte
	// Pending are the places of the items of which something may be new, as bits.
	Pending []byte
}

// Shown is what a request has shown.
type Shown struct {
	// Items are places of items, and What is what was shown of each.
	Items []int
	What  []change.Shown
	// Unlisted says that the items have to be found out again: the process knows none.
	Unlisted bool `json:",omitempty"`
	// Failed says why nothing was shown; empty if it was. It has no values.
	Failed string `json:",omitempty"`
}

// Call asks for a call of an external service.
type Call struct {
	URL  string
	Body []byte
	// Call is the number by which its answer is found.
	Call uint64
}

// Answer is the reply of an external service to the Call of the same number.
type Answer struct {
	Call    uint64
	Outcome uint8
	Message string
}

// Cause is why a child ends by itself.
type Cause string

// The causes.
const (
	// CauseMemory: it used more memory than it may.
	CauseMemory Cause = "memory"
	// CauseStuck: an evaluation went on after it was cancelled.
	CauseStuck Cause = "stuck"
	// CauseCompileTime: a compilation took too long.
	CauseCompileTime Cause = "compile_time"
)

// Exit is the last that a child says. The lane and the job of its frame are those that
// are to blame, if that is known.
type Exit struct {
	Cause Cause
	// Memory is what was in use, in bytes.
	Memory int64
}

// Marshal returns the payload of a rare frame.
func Marshal(content any) []byte {
	payload, err := json.Marshal(content)
	if err != nil {
		// The types of this package have nothing that cannot be encoded.
		panic(fmt.Sprintf("rehearsal: encoding a %T: %v", content, err))
	}
	return payload
}

// Unmarshal reads the payload of a rare frame.
func Unmarshal(payload []byte, content any) error {
	if err := json.Unmarshal(payload, content); err != nil {
		return fmt.Errorf("reading a %T: %w", content, err)
	}
	return nil
}
