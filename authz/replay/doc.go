// Package replay decides recorded requests by two policies, and says how they differ.
//
// [Run] reads files of decision logs (package logreader) and decides every entry by the live
// policy and by a candidate, both as of the entry's own time. What comes out is what the
// comparison of live traffic comes to, an Evidence, and next to it what a recording alone can
// show:
//
//	scan (one goroutine) → parse, decide, compare (one for each processor) → count, in order
//
// Entries are counted in the order of the files, so that the same files always come to the
// same. Memory is bounded: by the records under way, by the tally, and by the groups.
//
// A recording is not the request. What was erased from it or masked, an evaluation that asks for
// it would miss: such an entry is [MissingField] something, is not compared, and is counted by the
// field. One that is not asked for it is compared. OPA, which gets all of the input where it has
// to evaluate, counts as asking for whatever the policy may read. Not compared either is an
// entry that needs an external service, whose answers are in no log. Where the log has what was
// decided then, the replayed live policy is held against it: [Drift] says how far the replay can
// be trusted.
//
// Nothing of a request gets into a result but its method, path, principal and labels, as into
// a report; an entry whole only if an [Example] of it is asked for.
package replay
