package policyfile

import (
	"slices"
	"testing"

	"understudy/cmd/testkit"
)

// TestDocumentsAreReadOnce parses a document once in a call, and no more documents at a time than may be.
func TestDocumentsAreReadOnce(t *testing.T) {
	document := []byte(`{"revision_id":"0","name":"web","run_list":[],"cookbook_locks":{}}`)
	f := &format{parsing: make(chan struct{}, 1)}
	first, err := f.parse(document)
	if err != nil {
		t.Fatal(err)
	}
	f.parsing <- struct{}{} // Somebody else reads.
	if again, err := f.parse(slices.Clone(document)); again != first || err != nil {
		t.Errorf("the same document is read again (%v)", err)
	}
	other := make(chan *Lock)
	go func() {
		lock, _ := f.parse([]byte(`{"revision_id":"1","name":"web","run_list":[],"cookbook_locks":{}}`))
		other <- lock
	}()
	select {
	case <-other:
		t.Error("another document is parsed although as many as may be are being parsed")
	default:
	}
	<-f.parsing
	if lock := testkit.Receive(t, "the other reader's lock", other); lock == nil || lock.RevisionID != "1" {
		t.Errorf("another document is read as %+v", lock)
	}
	if _, err := f.parse([]byte(`{}`)); err == nil || len(f.parsing) > 0 {
		t.Errorf("what is no lock is read (%v), or still counts as being parsed", err)
	}
}
