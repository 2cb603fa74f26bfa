package replay

import (
	"time"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// Result is what a replay came to. All lists are in a fixed order.
type Result struct {
	// Evidence is what the comparisons come to, as that of live traffic does. Its time is the
	// recorded one.
	Evidence *evidencepb.Evidence
	// Items are in what the two policies differ; nil if that is not known.
	Items *change.List
	// Entries is how many decisions were read, and Compared how many of them were decided by
	// both policies.
	Entries, Compared int64
	// Sampled is how many of the entries say that their log is a sample of what was allowed:
	// shares of them are none of the traffic.
	Sampled int64
	NotCompared
	// First and Last are the times of the earliest and the latest entry that was compared.
	First, Last time.Time
	// Drift is how far the replayed live policy decides as the log says.
	Drift Drift
	// Unstable are the policies that may decide otherwise about the same request at the same
	// time: by chance, say.
	Unstable []Side
	// Examples are entries of the groups that differ, and WithoutExample the groups without one;
	// none if they were not asked for.
	Examples       []Example
	WithoutExample []WithoutExample
}

// NotCompared is what was read and says nothing of the two policies.
type NotCompared struct {
	// Skipped are entries, by why they were not compared; the largest number first.
	Skipped []Skipped
	// Missing are the fields for which entries were not compared, the largest number first. An
	// entry may lack several.
	Missing []MissingField
	// Others is the number of records that are no decisions, Broken of those that cannot be
	// read, of which the first are BrokenRecords.
	Others, Broken int64
	BrokenRecords  []Broken
}

// Skipped is a reason for which entries were not compared.
type Skipped struct {
	Reason  string `json:"reason,omitempty"`
	Entries int64  `json:"entries,omitempty"`
}

// MissingField is a field that a policy asked entries for and that they have not, because it was
// erased or masked before they were logged.
type MissingField struct {
	// Field is as policies write it: input.attributes.request.http.headers.authorization.
	Field string `json:"field,omitempty"`
	// Side is who asked, and Position the first line that reads it: auth.rego:12. Position is empty if
	// none names it.
	Side     Side   `json:"side,omitempty"`
	Position string `json:"position,omitempty"`
	Entries  int64  `json:"entries,omitempty"`
}

// Broken is a record that cannot be read.
type Broken struct {
	File   string `json:"file,omitempty"`
	Record int64  `json:"record,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Drift is how the replayed live policy compares with what the log says was decided.
type Drift struct {
	// Known is how many entries say what was decided, and Same how many are decided alike.
	Known int64 `json:"known,omitempty"`
	Same  int64 `json:"same,omitempty"`
	// Groups are the others, the largest number first; Rest is how many are in none of them.
	Groups []DriftGroup `json:"groups,omitempty"`
	Rest   int64        `json:"rest,omitempty"`
}

// DriftGroup are entries that the live policy decides otherwise than the log says.
type DriftGroup struct {
	// Kind is from what was recorded to what is decided now: FAILED if that fails, and
	// LIVE_FAILED if the recorded decision was a failure, or none.
	Kind   authz.Difference `json:"kind,omitempty"`
	Method string           `json:"method,omitempty"`
	Path   string           `json:"path,omitempty"`
	// Revision is what decided then; empty if the log does not say. Other says that it is
	// known to be another one than that of the live policy.
	Revision string `json:"revision,omitempty"`
	Other    bool   `json:"other,omitempty"`
	Entries  int64  `json:"entries,omitempty"`
	// DecisionID is that of the first of them.
	DecisionID string `json:"decisionId,omitempty"`
}
