// Package diagnostics is how the parts of the data plane report to their operator what happens:
// in logs and in metrics.
//
// Both are bounded, anyone who causes them. A [LimitedLog] writes so many lines of a kind in
// a time, [Panics] reports panics without quoting what was worked at, [Options] makes the
// labels of a measurement once, and [Bounded] makes a stranger's text fit for one line.
// The package knows nothing of policies and requests.
package diagnostics
