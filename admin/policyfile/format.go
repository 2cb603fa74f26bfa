package policyfile

import (
	"bytes"
	"fmt"

	"understudy/admin/library"
	adminpb "understudy/admin/v1"
)

// format parses the documents of one call for the library, the same document once. Of all
// calls, at most GOMAXPROCS documents are parsed at once: parsing takes about 60 times the
// size of a document in memory, and the processors are for decisions. It is for one
// goroutine.
type format struct {
	// trust takes any revision_id, as Chef's server does.
	trust bool
	// parsing has a token for each document that is being read.
	parsing chan struct{}
	// last is the document that was read last.
	last parsed
}

// parsed is what came of a document.
type parsed struct {
	document []byte
	lock     *Lock
	err      error
}

// parse is [Parse].
func (f *format) parse(document []byte) (*Lock, error) {
	if f.last.document == nil || !bytes.Equal(f.last.document, document) {
		f.inTurn(func() {
			lock, err := Parse(document)
			f.last = parsed{document, lock, err}
		})
	}
	return f.last.lock, f.last.err
}

// inTurn runs work when fewer than GOMAXPROCS documents are being parsed.
func (f *format) inTurn(work func()) {
	f.parsing <- struct{}{}
	defer func() { <-f.parsing }()
	work()
}

// Content implements [library.LockFormat].
func (f *format) Content(document []byte) (*adminpb.Policy, error) {
	lock, err := f.parse(document)
	if err != nil {
		return nil, fmt.Errorf("reading a stored lock: %w", err)
	}
	policy, err := lock.Policy()
	if err != nil {
		return &adminpb.Policy{}, nil
	}
	return policy, nil
}

// Admit implements [library.LockFormat]: a server must compute the revision_id of a new
// lock and refuse a wrong one (RFC-042).
func (f *format) Admit(given library.Lock) error {
	if f.trust {
		return nil
	}
	lock, err := f.parse(given.Document)
	if err != nil {
		return err
	}
	computed := ""
	f.inTurn(func() { computed = lock.ComputeRevisionID() })
	if computed != lock.RevisionID {
		return invalid(fmt.Sprintf("Field 'revision_id' invalid : %s does not match %s, the hash of the document",
			lock.RevisionID, computed))
	}
	return nil
}

// enforcement says, for people and scripts, what sidecars do with a lock.
func (f *format) enforcement(lock library.Lock) string {
	if lock.Document == nil {
		if len(lock.Content.GetRules()) == 0 {
			return "no-op; the policy has no rules"
		}
		return "enforced"
	}
	parsed, err := f.parse(lock.Document)
	if err == nil {
		_, err = parsed.Policy()
	}
	if err != nil {
		return "no-op; " + err.Error()
	}
	return "enforced"
}
