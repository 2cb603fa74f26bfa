package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"understudy/admin/settler"
	"understudy/admin/storetest"
	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/authz/evidence/publisher"
)

// What becomes of a call to a lossy store.
const (
	arrives int32 = iota
	requestLost
	answerLost
)

// lossy is a store that a node is cut off from now and then.
type lossy struct {
	storetest.Both
	now atomic.Int32
}

func (s *lossy) Publish(ctx context.Context, node string, due []authz.PublishedEvidence) (authz.Publication, error) {
	lost := errors.New("lost")
	switch s.now.Load() {
	case requestLost:
		return authz.Publication{}, lost
	case answerLost:
		_, err := s.Both.Publish(ctx, node, due)
		return authz.Publication{}, errors.Join(lost, err)
	}
	return s.Both.Publish(ctx, node, due)
}

// TestCutOff: a node that is cut off from the store for minutes, each time at any moment, is
// taken for dead and settled, and counts on. Each of its requests counts once.
func TestCutOff(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cutOff(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func cutOff(t *testing.T, random *rand.Rand) {
	stored, closeStore, err := openStore(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeStore() }()
	newExperiment(t, stored)
	store, ledger := &lossy{Both: stored}, evidence.NewLedger()
	tally := ledger.Tally(string(tried.Experiment), tried.UID, etag)
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live"}})
	discard := slog.New(slog.DiscardHandler)
	p := &publisher.Publisher{Feed: store, Node: location.Node("n"), Ledger: ledger, Pace: &publisher.Pace{}, Logger: discard}
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(running)
	}()
	var want counts
	sweeper := &settler.Settler{Store: stored, Project: "p1", Logger: discard}
	for range 60 {
		for _, kind := range requests(random, random.IntN(20)) {
			countOne(tally, kind, random.IntN(1000))
			want[kind]++
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Second)
		if random.IntN(4) == 0 {
			store.now.Store(random.Int32N(3))
		}
		if err := sweeper.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	store.now.Store(arrives)
	cancel()
	<-running
	p.Finish(context.WithoutCancel(ctx))
	if got := read(t, stored); got != want {
		t.Errorf("there are %v, counted were %v", got, want)
	}
	if settled, err := stored.Evidence(t.Context(), tried, nil); err != nil || settled.Version == 0 {
		t.Errorf("there were %d settlements, %v; want some", settled.Version, err)
	}
}
