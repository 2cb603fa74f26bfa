package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
)

// tried is the experiment of these tests, and node the one that counts.
var tried = admin.EvidenceName{Experiment: web + "/experiments/e", UID: "uid-1"}

const (
	node     = string(location) + "/nodes/n"
	evidence = ofReports + "evidence"
)

// counted is what the tallies a and b have counted when they publish for the nth time.
func counted(n int64) (out []authz.PublishedEvidence) {
	for _, tally := range []string{"a", "b"} {
		out = append(out, authz.PublishedEvidence{
			Experiment: string(tried.Experiment), UID: tried.UID, Tally: tally, Serial: n, Value: fmt.Appendf(nil, "%s%d", tally, n),
		})
	}
	return out
}

// try stores the experiment.
func try(t *testing.T, store *redisstore.Store) {
	t.Helper()
	if _, err := store.Commit(t.Context(), admin.Txn{ID: "try", Project: "p1", Writes: []admin.Write{
		admin.Put{Key: web}, admin.Put{Key: tried.Experiment, Value: []byte("has uid-1 in it")},
	}}); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, store *redisstore.Store, n int64) authz.Publication {
	t.Helper()
	out, err := store.Publish(t.Context(), node, counted(n))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, store *redisstore.Store) admin.Evidence {
	t.Helper()
	out, err := store.Evidence(t.Context(), tried)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is damaged of an evidence costs that tally alone, and is named; what is published of
// it next takes its place. What was compacted is damaged by itself, too, and what is compacted
// next takes its place.
func TestDamagedEvidence(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	try(t, store)
	ctx := t.Context()
	for i, damage := range []func() error{
		func() error { return redis.HSet(ctx, evidence+"/uid-1/tallies", "a", "nonsense").Err() },
		func() error { return redis.HSet(ctx, evidence+"/uid-1/tallies", "a", "1 2 ").Err() },
		func() error { return redis.HDel(ctx, evidence+"/uid-1/tallies", "a").Err() },
		func() error { return redis.HDel(ctx, evidence+"/uid-1/values", "a").Err() },
	} {
		n := int64(2*i + 1)
		publish(t, store, n)
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		got := read(t, store)
		if len(got.Tallies) != 1 || got.Tallies[0].Tally != "b" || !cmp.Equal(got.Damaged, []string{"a"}) {
			t.Errorf("damage %d: %+v", i, got)
		}
		err := store.Compact(ctx, admin.Compaction{EvidenceName: tried, Compacted: []byte("x"), Tallies: []admin.TallyRecord{{Tally: "a", Serial: 0}}})
		if !errors.Is(err, admin.ErrChanged) {
			t.Errorf("damage %d: compacting it: %v", i, err)
		}
		if refused := publish(t, store, n+1).Refused; len(refused) != 0 {
			t.Errorf("damage %d: refused are %v", i, refused)
		}
		if got := read(t, store); len(got.Tallies) != 2 || len(got.Damaged) != 0 {
			t.Errorf("damage %d, then published: %+v", i, got)
		}
	}
	for i, damage := range []func() error{
		func() error {
			return redis.HSet(ctx, ofControl+"evidence/uid-1/compacted", "version", "nonsense").Err()
		},
		func() error { return redis.HDel(ctx, ofControl+"evidence/uid-1/compacted", "version").Err() },
		func() error { return redis.HDel(ctx, ofControl+"evidence/uid-1/compacted", "value").Err() },
	} {
		compaction := admin.Compaction{EvidenceName: tried, Version: read(t, store).Version, Compacted: fmt.Appendf(nil, "sum %d", i)}
		if err := store.Compact(ctx, compaction); err != nil {
			t.Fatal(err)
		}
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		got := read(t, store)
		if got.Damage == nil || len(got.Compacted) != 0 || len(got.Tallies) != 2 {
			t.Errorf("damaged compaction %d: %+v", i, got)
		}
		compaction.Version, compaction.Compacted = got.Version, fmt.Appendf(nil, "new %d", i)
		if err := store.Compact(ctx, compaction); err != nil {
			t.Errorf("damaged compaction %d: compacting: %v", i, err)
		}
		if got := read(t, store); got.Damage != nil || string(got.Compacted) != string(compaction.Compacted) {
			t.Errorf("damaged compaction %d, then compacted: %+v", i, got)
		}
	}
}

// A key of a wrong type fails what is about evidence before anything is written, and
// nothing else.
func TestEvidenceWrongType(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	for _, key := range []string{evidence, evidence + "/uid-1/tallies", evidence + "/uid-1/values", ofFeed + "evidence/uid-1/over", ofFeed + "evidence/uid-1/serials"} {
		t.Run(key, func(t *testing.T) {
			if err := redis.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			try(t, store)
			if err := redis.SetNX(t.Context(), key, "wrong", 0).Err(); err != nil {
				t.Fatal(err)
			}
			before := dump(t, redis)
			if _, err := store.Publish(t.Context(), node, counted(1)); !errors.Is(err, admin.ErrUnavailable) {
				t.Errorf("publishing: %v", err)
			}
			if err := store.Compact(t.Context(), admin.Compaction{EvidenceName: tried}); !errors.Is(err, admin.ErrUnavailable) {
				t.Errorf("compacting: %v", err)
			}
			if diff := cmp.Diff(before, dump(t, redis)); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
			if records, err := store.Get(t.Context(), tried.Experiment); err != nil || records[0].Damage != nil {
				t.Errorf("the experiment: %+v, %v", records, err)
			}
			if _, err := store.Commit(t.Context(), admin.Txn{ID: "b", Project: "p1", Writes: []admin.Write{admin.Delete{Key: tried.Experiment}}}); err != nil {
				t.Errorf("committing: %v", err)
			}
		})
	}
}

// A key of a wrong type of one experiment stops the evidence of no other. The error names the
// key, what it is and what it has to be.
func TestWrongTypeOfOneExperiment(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	try(t, store)
	other := web.In("experiments").Key("other")
	if _, err := store.Commit(t.Context(), admin.Txn{ID: "other", Project: "p1", Writes: []admin.Write{admin.Put{Key: other, Value: []byte("has uid-2 in it")}}}); err != nil {
		t.Fatal(err)
	}
	if err := redis.Set(t.Context(), evidence+"/uid-1/tallies", "wrong", 0).Err(); err != nil {
		t.Fatal(err)
	}
	due := append(counted(1), authz.PublishedEvidence{Experiment: string(other), UID: "uid-2", Tally: "c", Serial: 1, Value: []byte("c1")})
	out, err := store.Publish(t.Context(), node, due)
	if err != nil || out.Nodes != 1 || len(out.Failed) != 2 || len(out.Refused) != 0 {
		t.Fatalf("got %+v, %v; want the tallies of one experiment failed", out, err)
	}
	for _, tally := range []string{"a", "b"} {
		err := out.Failed[tally]
		if want := evidence + "/uid-1/tallies is a string and has to be a hash"; !errors.Is(err, redisstore.ErrWrongType) || !strings.Contains(err.Error(), want) {
			t.Errorf("tally %s: got %v, want %q", tally, err, want)
		}
	}
	got, err := store.Evidence(t.Context(), admin.EvidenceName{Experiment: other, UID: "uid-2"})
	if err != nil || len(got.Tallies) != 1 || string(got.Tallies[0].Value) != "c1" {
		t.Errorf("the other experiment has %+v, %v", got, err)
	}
	if err := redis.Del(t.Context(), evidence+"/uid-1/tallies").Err(); err != nil {
		t.Fatal(err)
	}
	if out := publish(t, store, 1); len(out.Failed)+len(out.Refused) != 0 {
		t.Errorf("after the key was deleted: %+v", out)
	}
}

// A reply that is lost makes neither a publication nor a compaction count twice, nor a
// failure of it.
func TestLostReplyOfEvidence(t *testing.T) {
	t.Parallel()
	p := newProxy(t, storetest.StartRedis(t), "fcall\r")
	store := open(t, p.url())
	try(t, store)
	publish(t, store, 1)
	if err := store.Compact(t.Context(), admin.Compaction{EvidenceName: tried, Compacted: []byte("nothing yet")}); err != nil {
		t.Fatal(err)
	}
	p.replies.Store(2)
	if refused := publish(t, store, 2).Refused; len(refused) != 0 {
		t.Errorf("refused are %v", refused)
	}
	before := read(t, store)
	p.replies.Store(2)
	compaction := admin.Compaction{EvidenceName: tried, Version: before.Version, Compacted: []byte("a2"), Tallies: before.Tallies[:1]}
	if err := store.Compact(t.Context(), compaction); err != nil {
		t.Errorf("compacting: %v", err)
	}
	want := admin.Evidence{Compacted: []byte("a2"), Version: before.Version + 1, Tallies: before.Tallies[1:]}
	if diff := cmp.Diff(want, read(t, store), cmpopts.IgnoreFields(admin.TallyRecord{}, "Age")); diff != "" {
		t.Error(diff)
	}
	p.replies.Store(1 << 40)
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := store.Publish(t.Context(), node, counted(3)); !errors.Is(err, admin.ErrOutcomeUnknown) {
			t.Errorf("publishing without a reply: %v", err)
		}
	})
	calls.Go(func() {
		if err := store.Compact(t.Context(), admin.Compaction{EvidenceName: tried}); !errors.Is(err, admin.ErrOutcomeUnknown) {
			t.Errorf("compacting without a reply: %v", err)
		}
	})
	calls.Wait()
}

// What is known of compacted tallies is forgotten two days later, by the clock of Redis; what
// sidecars publish has no expiry.
func TestEvidenceIsKept(t *testing.T) {
	server := storetest.StartRedis(t)
	store, redis := open(t, server.URL()), client(t, server)
	try(t, store)
	publish(t, store, 1)
	before := read(t, store)
	if err := store.Compact(t.Context(), admin.Compaction{EvidenceName: tried, Compacted: []byte("a1"), Tallies: before.Tallies[:1]}); err != nil {
		t.Fatal(err)
	}
	if err := redis.HDel(t.Context(), ofFeed+"evidence/uid-1/serials", "a").Err(); err != nil {
		t.Fatal(err)
	}
	want := []authz.RefusedTally{{Tally: "a", Serial: authz.SerialUnknown}}
	if refused := publish(t, store, 2).Refused; !cmp.Equal(refused, want) {
		t.Errorf("refused are %v, want %v: the serial is lost", refused, want)
	}
	before.Tallies[1].Serial = 2
	if err := redis.ZIncrBy(t.Context(), ofFeed+"evidence/uid-1/over", -authz.TallyKept.Seconds()*1000, "a").Err(); err != nil {
		t.Fatal(err)
	}
	if err := store.Compact(t.Context(), admin.Compaction{EvidenceName: tried, Version: 1, Compacted: []byte("both"), Tallies: before.Tallies[1:]}); err != nil {
		t.Fatal(err)
	}
	over, err := redis.ZRange(t.Context(), ofFeed+"evidence/uid-1/over", 0, -1).Result()
	if err != nil || !cmp.Equal(over, []string{"b"}) {
		t.Errorf("over are %v, %v", over, err)
	}
	serials, err := redis.HKeys(t.Context(), ofFeed+"evidence/uid-1/serials").Result()
	if err != nil || !cmp.Equal(serials, []string{"b"}) {
		t.Errorf("there are the serials of %v, %v", serials, err)
	}
	for _, key := range []string{evidence, ofFeed + "evidence/uid-1/over", ofFeed + "evidence/uid-1/serials", ofControl + "evidence/uid-1/compacted"} {
		if ttl, err := redis.TTL(t.Context(), key).Result(); err != nil || ttl != -1 {
			t.Errorf("%s expires in %v, %v", key, ttl, err)
		}
	}
}
