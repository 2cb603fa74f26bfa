package authz_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"understudy/authz"
)

// forgetful is a feed that never keeps the changes after a cursor.
type forgetful struct{ *memoryFeed }

func (forgetful) Next(context.Context, authz.Location, authz.Cursor) (authz.Update, error) {
	return authz.Update{}, authz.ErrTrimmed
}

// TestAStoreThatKeepsNothingIsNotStormed follows it for ten seconds of a clock that
// moves only while everyone waits.
func TestAStoreThatKeepsNothingIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := newFeed()
		s, err := authz.NewSidecar(authz.Config{Feed: forgetful{feed}, Location: location, Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := feed.loaded(); n < 10 || n > 1000 {
			t.Errorf("everything was loaded %d times; want it done again and again, with pauses", n)
		}
	})
}
