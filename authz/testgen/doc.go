// Package testgen turns requests on which two policies differ into Rego tests.
//
// A [replay.Example] is the first request of a group of differences. Its input document is
// minimised: whatever can be taken out of it without a change of the difference is taken out,
// so that what is left is what the difference is about. What proves an identity is not in a
// test: a token is replaced by one that the test makes of the claims that matter, another
// credential by a word; where the difference needs the real one, there is no test, and that is
// said. Each test is run with both policies before it is handed out: it passes with the one
// that it is for, and fails with the other.
package testgen
