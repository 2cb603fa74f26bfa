package storetest

import (
	"context"
	"errors"

	"understudy/admin"
	"understudy/authz"
)

var contextTests = []test{
	{"Done", testContextDone},
	{"Cancelled", testContextCancelled},
}

func testContextDone(s *subject) {
	a := s.policy("a")
	s.put(admin.Put{Key: a})
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Get":  func() error { _, err := s.Get(ctx, a); return err },
		"List": func() error { _, err := s.List(ctx, admin.Query{Collection: s.policies()}); return err },
		"Commit": func() error {
			_, err := s.Commit(ctx, s.txn(nil, admin.Delete{Key: a}))
			return err
		},
		"Nodes":     func() error { _, err := s.Nodes(ctx, s.location); return err },
		"Load":      func() error { _, err := s.Load(ctx, s.location); return err },
		"Next":      func() error { _, err := s.Next(ctx, s.location, authz.Cursor{}); return err },
		"Heartbeat": func() error { _, err := s.Heartbeat(ctx, s.node("n")); return err },
		"Leave":     func() error { return s.Leave(ctx, s.node("n").Name) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) || errors.Is(err, admin.ErrUnavailable) {
			s.Errorf("%s: %v", name, err)
		}
	}
	if !s.has(a) {
		s.Error("the commit was made")
	}
}

// Followers that wait return when their context is done, each by its own.
func testContextCancelled(s *subject) {
	cursor := s.load().Cursor
	for range 3 {
		ctx, cancel := context.WithCancel(s.Context())
		cancelled, other := make(chan error), make(chan error)
		go func() { _, err := s.Next(ctx, s.location, cursor); cancelled <- err }()
		go func() { _, err := s.Next(s.Context(), s.location, cursor); other <- err }()
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
