package recovery_test

import (
	"context"
	"testing"
	"time"

	"understudy/admin"
	"understudy/admin/recovery"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// watermark is that of the project of lostLocation.
func (l lostStore) watermark(t *testing.T) int64 {
	t.Helper()
	watermark, err := l.store.Watermark(t.Context(), admin.Key(lostLocation).Project())
	if err != nil {
		t.Fatal(err)
	}
	return watermark
}

// TestOnlyNewerAndAcceptEndThatTheStoreWentBack: the others leave open what counts of all that is no policy. Both end
// it also if no policy is older, and by a number above all that are known, however slow the clock of the store is.
func TestOnlyNewerAndAcceptEndThatTheStoreWentBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(recovery.Recovery, context.Context) ([]recovery.Version, error)
		ends bool
	}{
		"missing": {recovery.Recovery.RestoreMissing, false},
		"empty":   {recovery.Recovery.AcceptLoss, false},
		"newer":   {recovery.Recovery.RestoreNewer, true},
		"accept":  {recovery.Recovery.AcceptOlder, true},
	} {
		t.Run(name, func(t *testing.T) {
			onAnOlderStore(t, func(t *testing.T, l lostStore) {
				before := l.watermark(t)
				l.saved.Watermark = time.Now().Add(time.Hour).UnixMilli()
				l.saved.Policies = map[authz.PolicyName]authz.PolicyState{lostLocation.Policy("lost"): l.saved.Policies[lostLocation.Policy("shop")]}
				l.saved.Policies[lostLocation.Policy("lost")].Policy.Name = string(lostLocation.Policy("lost"))
				r := l.recovery()
				r.ValidateOnly = true
				if _, err := c.do(r, t.Context()); err != nil || l.watermark(t) != before {
					t.Errorf("to look changes the watermark: %v", err)
				}
				if _, err := c.do(l.recovery(), t.Context()); err != nil {
					t.Fatal(err)
				}
				if now := l.watermark(t); c.ends && now <= l.saved.Watermark || !c.ends && now != before {
					t.Errorf("the watermark was %d and is %d; %d is known", before, now, l.saved.Watermark)
				}
			})
		})
	}
}

// TestTheWatermarkOfANodeIsKnownToARestore: the file that is at hand may be an older one.
func TestTheWatermarkOfANodeIsKnownToARestore(t *testing.T) {
	t.Parallel()
	onAnOlderStore(t, func(t *testing.T, l lostStore) {
		known := time.Now().Add(time.Minute).UnixMilli()
		if _, err := l.store.Heartbeat(t.Context(), &adminpb.Node{Name: string(lostLocation) + "/nodes/n", Watermark: known}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.recovery().AcceptOlder(t.Context()); err != nil || l.watermark(t) <= known {
			t.Errorf("the watermark is %d, and a node knows %d: %v", l.watermark(t), known, err)
		}
	})
}

// TestAnEmptyStoreHasNothingToAccept: nothing is written, and the first change raises the watermark.
func TestAnEmptyStoreHasNothingToAccept(t *testing.T) {
	t.Parallel()
	onALoss(t, func(t *testing.T, l lostStore) {
		l.saved.Watermark = time.Now().UnixMilli()
		if _, err := l.recovery().AcceptOlder(t.Context()); err != nil || l.watermark(t) != 0 {
			t.Errorf("the watermark is %d, %v", l.watermark(t), err)
		}
		if _, err := l.recovery().Restore(t.Context()); err != nil || l.watermark(t) <= l.saved.Watermark {
			t.Errorf("after the restore, the watermark is %d, %v", l.watermark(t), err)
		}
	})
}
