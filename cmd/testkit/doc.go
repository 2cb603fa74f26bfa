// Package testkit has what tests of all packages share: waiting for an event, processes that end
// with the test binary, and how many random cases to try. Only tests import it.
package testkit
