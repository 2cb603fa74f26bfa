package rego

import (
	"context"
	"time"

	"understudy/rego/dependencies"
	"understudy/rego/instrument"
)

// Reads is the read set of a rule: the paths below `input` that its evaluation can look
// at.
type Reads = dependencies.Reads

// ReadsEverything is the read set of a rule that looks at the whole input.
var ReadsEverything = dependencies.ReadsEverything

// ReadsAt is the read set of what looks at everything at and below one path, given by
// its names.
func ReadsAt(path ...string) *Reads { return dependencies.ReadsAt(path...) }

// IndexName is the name by which an element of an array is read.
func IndexName(i int) string { return dependencies.IndexName(i) }

// ParseReads returns the read set whose String is the text.
func ParseReads(text string) (*Reads, error) { return dependencies.ParseReads(text) }

// Element is an element of an array that is read.
type Element = dependencies.Element

// Observed writes what a read set takes of values.
type Observed = dependencies.Observed

// Validity is when values are observed, and until when the same is observed of them: Now and
// Until, in nanoseconds since 1970. If Until is not after Now, nothing may be kept. That is so if its
// Context is done. One is for the key of one request.
type Validity = instrument.Validity

// ValidFrom is a validity from a moment on that nothing bounds yet.
func ValidFrom(ctx context.Context, now time.Time) Validity {
	return Validity{Context: ctx, Now: now.UnixNano(), Until: instrument.Forever}
}

// AppendObserved appends what is observed of an input document.
func AppendObserved(b []byte, o *Observed, input Input, at *Validity) []byte {
	return o.Value(b, input.value, at)
}
