package storetest

import (
	"context"
	"errors"

	"understudy/admin"
	"understudy/authz"
)

// contextTests are about callers that go away, or have gone.
var contextTests = []test{
	{"Done", testContextDone},
	{"Cancelled", testContextCancelled},
}

// testContextDone calls every method with a context that is done. The error has to be
// that of the context: as ErrUnavailable, it would make an outage of a caller that went
// away, and would be logged as one. And nothing may be written for a caller that had gone
// before the call began.
func testContextDone(s *subject) {
	a := s.policy("a")
	s.put(admin.Put{Key: a})
	name := s.begin("uid-1")
	s.publish("n", published(name, "t", 1, "one"))
	read := s.evidence(name)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for method, call := range map[string]func() error{
		"Get":           func() error { _, err := s.Get(ctx, a); return err },
		"Summaries":     func() error { _, err := s.Summaries(ctx, s.policy("a")); return err },
		"ListSummaries": func() error { _, err := s.ListSummaries(ctx, admin.Query{Collection: s.policies()}); return err },
		"List":          func() error { _, err := s.List(ctx, admin.Query{Collection: s.policies()}); return err },
		"Commit": func() error {
			_, err := s.Commit(ctx, s.txn(nil, admin.Delete{Key: a}))
			return err
		},
		"Nodes":     func() error { _, err := s.Nodes(ctx, s.location); return err },
		"Load":      func() error { _, err := s.Load(ctx, authz.Scope{Location: s.location}); return err },
		"Next":      func() error { _, err := s.Next(ctx, authz.Scope{Location: s.location}, authz.Cursor{}); return err },
		"Heartbeat": func() error { _, err := s.Heartbeat(ctx, s.node("n")); return err },
		"Leave":     func() error { return s.Leave(ctx, s.node("n").Name) },
		"Publish": func() error {
			_, err := s.Publish(ctx, s.node("n").Name, []authz.PublishedEvidence{published(name, "t", 2, "more")})
			return err
		},
		"Evidence": func() error { _, err := s.Evidence(ctx, name); return err },
		"Compact": func() error {
			return s.Compact(ctx, admin.Compaction{EvidenceName: name, Compacted: []byte("sum"), Tallies: read.Tallies})
		},
		"EvidenceNames": func() error { _, err := s.EvidenceNames(ctx, s.project); return err },
		"DropEvidence":  func() error { return s.DropEvidence(ctx, name) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) || errors.Is(err, admin.ErrUnavailable) {
			s.Errorf("%s: %v", method, err)
		}
	}
	if !s.has(a) {
		s.Error("the commit was made")
	}
	s.checkEvidence(name, read)
}

// testContextCancelled cancels one of two followers that wait for the same change. A
// store may serve many followers by one connection; so the one that is cancelled has to
// return at once, by its own context, and must not take the wait of the other away.
func testContextCancelled(s *subject) {
	cursor := s.load().Cursor
	for range 3 {
		ctx, cancel := context.WithCancel(s.Context())
		cancelled, other := make(chan error), make(chan error)
		go func() { _, err := s.Next(ctx, authz.Scope{Location: s.location}, cursor); cancelled <- err }()
		go func() { _, err := s.Next(s.Context(), authz.Scope{Location: s.location}, cursor); other <- err }()
		// By the time this is written, both are likely to wait, each with a connection or none.
		s.put(admin.Put{Key: s.policy("silent")})
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			s.Errorf("the cancelled follower: %v", err)
		}
		s.change([]string{"a"})
		if err := <-other; err != nil {
			s.Errorf("the other follower: %v", err)
		}
		cursor = s.load().Cursor
	}
}
