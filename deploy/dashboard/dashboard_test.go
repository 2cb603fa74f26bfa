package main

import (
	"bytes"
	"os"
	"testing"
)

// TestFilesAreMade: what is checked in is what the program writes.
func TestFilesAreMade(t *testing.T) {
	made, err := marshal()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{dashboardFile: made, pictureFile: draw(rows)} {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the program writes (%v): run make dashboard", file, err)
		}
	}
}
