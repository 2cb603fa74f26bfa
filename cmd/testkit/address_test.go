package testkit_test

import (
	"testing"

	"understudy/cmd/testkit"
)

// TestAnAddressIsGivenOnce: no two tests get the same port, however many there are.
func TestAnAddressIsGivenOnce(t *testing.T) {
	given := make(map[string]bool)
	for range 300 {
		address := testkit.FreeAddress()
		if given[address] {
			t.Fatalf("%s was given before", address)
		}
		given[address] = true
	}
}
