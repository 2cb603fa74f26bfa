package storetest

import (
	"fmt"
	"testing"

	"understudy/admin"
	"understudy/authz"
)

// Benchmark measures what the control plane and the sidecars do most.
func Benchmark(b *testing.B, open Open) {
	b.Run("Commit", func(b *testing.B) { benchmarkCommit(newSubject(b, open), b) })
	b.Run("CommitParallel", func(b *testing.B) { benchmarkCommitParallel(newSubject(b, open), b) })
	b.Run("Get", func(b *testing.B) { benchmarkGet(newSubject(b, open), b) })
	for _, policies := range []int{10, 1000} {
		b.Run(fmt.Sprintf("Load-%d", policies), func(b *testing.B) { benchmarkLoad(newSubject(b, open), b, policies) })
	}
	b.Run("Next", func(b *testing.B) { benchmarkNext(newSubject(b, open), b) })
	b.Run("Heartbeat", func(b *testing.B) { benchmarkHeartbeat(newSubject(b, open), b) })
}

// typical returns the Txn of an ordinary update, with its operation and event.
func (s *subject) typical(id string) admin.Txn {
	txn := s.txn([]admin.Condition{admin.Exists{Key: s.policy(id)}},
		admin.Put{Key: s.policy(id), Value: make([]byte, 2048), Etag: "e"},
		admin.Put{Key: s.operation(id), Value: make([]byte, 512)})
	txn.Events = s.event(id)
	return txn
}

// benchmarkCommit is one change after another: the time that a caller of the API waits
// for the store.
func benchmarkCommit(s *subject, b *testing.B) {
	s.put(admin.Put{Key: s.policy("a")})
	for b.Loop() {
		s.must(s.typical("a"))
	}
}

// benchmarkCommitParallel is as many changes at once as there are processors: what the
// store does in a row shows here.
func benchmarkCommitParallel(s *subject, b *testing.B) {
	s.put(admin.Put{Key: s.policy("a")})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Commit(b.Context(), s.typical("a")); err != nil {
				b.Error(err)
			}
		}
	})
}

// benchmarkGet reads a policy and an experiment at one instant, as each call about an
// experiment does first.
func benchmarkGet(s *subject, b *testing.B) {
	s.put(admin.Put{Key: s.policy("a"), Value: make([]byte, 2048)}, admin.Put{Key: s.experiment("a", "e"), Value: make([]byte, 2048)})
	for b.Loop() {
		if _, err := s.Get(b.Context(), s.policy("a"), s.experiment("a", "e")); err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkLoad reads a whole location, as a sidecar does when it starts or has fallen
// behind. It should grow with the policies and no faster.
func benchmarkLoad(s *subject, b *testing.B, policies int) {
	for i := range policies {
		id := fmt.Sprintf("p%d", i)
		s.change([]string{id}, admin.Put{Key: s.policy(id), Value: policy(fmt.Sprintf("%2048d", i))},
			admin.Put{Key: s.experiment(id, "e"), Value: experiment(fmt.Sprintf("%2048d", i), active)})
	}
	for b.Loop() {
		if len(s.load().Policies) != policies {
			b.Fatal("policies are missing")
		}
	}
}

// benchmarkNext is the way of a change to a follower: a commit, and the update that it
// causes.
func benchmarkNext(s *subject, b *testing.B) {
	var cursor authz.Cursor
	for b.Loop() {
		s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("1")})
		cursor = s.next(cursor).Cursor
	}
}

// benchmarkHeartbeat is a report among those of 100 nodes, which every sidecar makes
// every few seconds: it must not cost more with each node.
func benchmarkHeartbeat(s *subject, b *testing.B) {
	for i := range 100 {
		s.beat(s.node(fmt.Sprintf("n%d", i)))
	}
	for b.Loop() {
		s.beat(s.node("n0"))
	}
}
