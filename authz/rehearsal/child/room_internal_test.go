package child

import (
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
)

// TestCachesStayWithinTheirPart: however many policies there are, their caches have no more than a part of the
// memory of the process, the first of them more than the next, and what is given back is there again.
func TestCachesStayWithinTheirPart(t *testing.T) {
	for memory, part := range map[int64]int64{256 << 20: 64 << 20, 0: mostRoom, 1: 0} {
		room := newCacheRoom(memory)
		var taken []int64
		sum := int64(0)
		for range 1000 {
			one := room.take()
			if len(taken) > 0 && one > taken[len(taken)-1] {
				t.Fatalf("of %d bytes one gets %d after one that got %d", memory, one, taken[len(taken)-1])
			}
			taken, sum = append(taken, one), sum+one
			if sum > part {
				t.Fatalf("of %d bytes caches have %d, want %d at most", memory, sum, part)
			}
		}
		if taken[0] != part/onePart || sum < part-1000 && sum < part*9/10 {
			t.Errorf("of %d bytes the first has %d and all have %d, want %d and nearly %d", memory, taken[0], sum, part/onePart, part)
		}
		for _, one := range taken {
			room.give(one)
		}
		if again := room.take(); again != taken[0] {
			t.Errorf("of %d bytes one gets %d after all are given back, want %d", memory, again, taken[0])
		}
	}
}

// laneWith is a lane of a process with this room.
func laneWith(t *testing.T, room *cacheRoom) *lane {
	t.Helper()
	c := &child{caches: room}
	c.watchdog = newWatchdog(c)
	l := newLane(c, 1)
	policy, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": "package envoy.authz\nallow if input.x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.use(&compiled{policy: policy}); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestALaneGivesItsRoomBack when another policy comes, and when it ends.
func TestALaneGivesItsRoomBack(t *testing.T) {
	room := newCacheRoom(64 << 20)
	all := room.left.Load()
	l := laneWith(t, room)
	if left := room.left.Load(); left != all-all/onePart || !l.policy.Caching() {
		t.Errorf("%d bytes of %d are left, and the policy has a cache: %v", left, all, l.policy.Caching())
	}
	if err := l.use(l.compiled); err != nil || room.left.Load() != all-all/onePart {
		t.Errorf("after a second policy %d bytes of %d are left; error %v", room.left.Load(), all, err)
	}
	l.close()
	l.run()
	if left := room.left.Load(); left != all {
		t.Errorf("%d bytes of %d are left after the end", left, all)
	}
}

// TestAPolicyWithoutRoomIsDecidedWithoutACache: that there are many others is no reason not to compile it.
func TestAPolicyWithoutRoomIsDecidedWithoutACache(t *testing.T) {
	room := &cacheRoom{}
	room.give(cache.BytesPerDecision*onePart - 1)
	if laneWith(t, room).policy.Caching() {
		t.Error("it has a cache")
	}
}
