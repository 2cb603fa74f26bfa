package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/go-cmp/cmp"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// feedTests are about how sidecars learn of changes: Load for all of a location, then
// Next for what changed after a cursor. A sidecar decides by what it was given here; a
// change that is lost means that it decides by an old policy, possibly for weeks, without
// any error.
var feedTests = []test{
	{"Load", testLoad},
	{"Empty", testLoadEmpty},
	{"Next", testNext},
	{"NextFromZero", testNextFromZero},
	{"Coalesced", testCoalesced},
	{"Locations", testLocations},
	{"Scope", testScope},
	{"Waits", testNextWaits},
	{"ManyWait", testManyWait},
	{"Follow", testFollow},
	{"Trimmed", testTrimmed},
	{"NotOfThisStore", testForeignCursor},
}

// load is Load of the subject's location.
func (s *subject) load() authz.Update {
	s.Helper()
	update, err := s.Load(s.Context(), authz.Scope{Location: s.location})
	if err != nil {
		s.Fatalf("loading: %v", err)
	}
	return update
}

// next is Next of the subject's location. It waits until there is something.
func (s *subject) next(after authz.Cursor) authz.Update {
	s.Helper()
	update, err := s.Next(s.Context(), authz.Scope{Location: s.location}, after)
	if err != nil {
		s.Fatalf("following %+v: %v", after, err)
	}
	return update
}

// states writes an update as the IDs of its policies with the display names of policy and
// ACTIVE experiments, in their order; none for a policy that is gone.
func states(update authz.Update) map[string]string {
	out := make(map[string]string)
	for name, state := range update.Policies {
		id := string(name.ID())
		if state.Policy == nil {
			out[id] = "none"
			continue
		}
		out[id] = state.Policy.DisplayName
		for _, e := range state.Experiments {
			out[id] += " " + e.GetPolicy().GetDisplayName()
		}
	}
	return out
}

// checkStates compares the policies of an update, and nothing else of it.
func (s *subject) checkStates(want map[string]string, update authz.Update) {
	s.Helper()
	if diff := cmp.Diff(want, states(update)); diff != "" {
		s.Error(diff)
	}
}

// testLoad loads a location with all that it may hold. A sidecar gets live policies with
// their ACTIVE experiments in name order; of a soft-deleted policy it gets the name
// alone, for it has to drop what it had; suspended experiments, revisions and experiments
// without a policy do not concern it. The cursor is that of the last event, so that
// nothing is missed or repeated by following from it.
func testLoad(s *subject) {
	head := s.change([]string{"a", "b", "c", "d"},
		admin.Put{Key: s.policy("a"), Value: policy("A")},
		admin.Put{Key: s.experiment("a", "z"), Value: experiment("Az", active)},
		admin.Put{Key: s.experiment("a", "b"), Value: experiment("Ab", active)},
		admin.Put{Key: s.experiment("a", "c"), Value: experiment("Ac", suspended)},
		admin.Put{Key: s.experiment("a", "d"), Value: experiment("Ad", adminpb.PolicyPreviewMetadata_STATE_UNDEFINED)},
		admin.Put{Key: s.policy("a") + "/revisions/r", Value: policy("no")},
		admin.Put{Key: s.policy("b"), Value: deletedPolicy()},
		admin.Put{Key: s.experiment("b", "e"), Value: experiment("no", active)},
		admin.Put{Key: s.policy("c"), Value: policy("C")},
		admin.Put{Key: s.experiment("orphan", "e"), Value: experiment("no", active)},
	)
	update := s.load()
	s.checkStates(map[string]string{"a": "A Ab Az", "b": "none", "c": "C"}, update)
	if update.Cursor.Sequence != head.Sequence || update.Cursor.Nonce == "" {
		s.Errorf("the cursor is %+v instead of that of %d", update.Cursor, head.Sequence)
	}
}

// testLoadEmpty loads a location that has never had a change: no error, and an empty map,
// not nil. A sidecar that starts before the first policy has to become ready and follow
// from the zero cursor.
func testLoadEmpty(s *subject) {
	update := s.load()
	if update.Cursor != (authz.Cursor{}) || len(update.Policies) != 0 || update.Policies == nil {
		s.Errorf("an empty location is %+v", update)
	}
}

// testNext follows one change after another, of every kind. An update has the policies
// that the events name as they are when it is read, deleted and unknown ones too, and a
// cursor of its own; what was written without an event is not in it. At the end the
// cursor is that of Load, whichever way it was reached.
func testNext(s *subject) {
	s.change([]string{"a", "b"}, admin.Put{Key: s.policy("a"), Value: policy("A")},
		admin.Put{Key: s.policy("b"), Value: policy("B")})
	cursor := s.load().Cursor
	// A change without an event is not announced.
	s.put(admin.Put{Key: s.policy("b"), Value: policy("B2")})
	steps := []struct {
		ids    []string
		writes []admin.Write
		want   map[string]string
	}{
		{[]string{"a"}, []admin.Write{admin.Put{Key: s.policy("a"), Value: policy("A2")}}, map[string]string{"a": "A2"}},
		{
			[]string{"a", "new"},
			[]admin.Write{
				admin.Put{Key: s.experiment("a", "e"), Value: experiment("Ae", active)},
				admin.Put{Key: s.policy("new"), Value: policy("N")},
			},
			map[string]string{"a": "A2 Ae", "new": "N"},
		},
		{[]string{"b"}, []admin.Write{admin.Put{Key: s.policy("b"), Value: deletedPolicy()}}, map[string]string{"b": "none"}},
		{[]string{"a"}, []admin.Write{
			admin.Delete{Key: s.policy("a")}, admin.DeleteCollection{Collection: s.experiments("a")},
		}, map[string]string{"a": "none"}},
		{[]string{"never"}, nil, map[string]string{"never": "none"}},
	}
	for _, step := range steps {
		head := s.change(step.ids, step.writes...)
		update := s.next(cursor)
		s.checkStates(step.want, update)
		if update.Cursor.Sequence != head.Sequence || update.Cursor.Nonce == "" || update.Cursor.Nonce == cursor.Nonce {
			s.Errorf("the cursor is %+v after %d", update.Cursor, head.Sequence)
		}
		cursor = update.Cursor
	}
	if diff := cmp.Diff(cursor, s.load().Cursor); diff != "" {
		s.Errorf("the cursors of Next and Load: %s", diff)
	}
}

// testNextFromZero follows from the zero cursor: what was loaded as an empty location. It
// delivers the first change.
func testNextFromZero(s *subject) {
	// A record without an event: it is there, and no change.
	s.put(admin.Put{Key: s.policy("silent"), Value: policy("S")})
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("A")})
	update := s.next(authz.Cursor{})
	s.checkStates(map[string]string{"a": "A"}, update)
	if update.Cursor != s.load().Cursor {
		s.Errorf("the cursor is %+v", update.Cursor)
	}
}

// testCoalesced makes changes faster than a follower reads them. They may come as one
// update or as several, but the last state of each policy has to be among them, and the
// cursor has to reach the last change.
func testCoalesced(s *subject) {
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("1")})
	cursor := s.load().Cursor
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("2")})
	s.change([]string{"b"}, admin.Put{Key: s.policy("b"), Value: policy("1")})
	last := s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("3")})
	seen := make(map[string]string)
	for cursor.Sequence < last.Sequence {
		update := s.next(cursor)
		for id, text := range states(update) {
			seen[id] = text
		}
		cursor = update.Cursor
	}
	if diff := cmp.Diff(map[string]string{"a": "3", "b": "1"}, seen); diff != "" {
		s.Error(diff)
	}
}

// testLocations changes two locations by one Txn. A follower of one gets its own policies
// and nothing of the other's, and a change of one does not move the cursor of the other:
// sidecars of prod do not wake up for each change in dev.
func testLocations(s *subject) {
	other := authz.Location("projects/" + s.project + "/locations/l2")
	before := s.load().Cursor
	txn := s.txn(nil, admin.Put{Key: s.policy("a"), Value: policy("1")},
		admin.Put{Key: admin.Key(other.Policy("a")), Value: policy("2")})
	txn.Events = append(s.event("a"), admin.Event{Location: other, Policies: []authz.PolicyName{other.Policy("a")}})
	sequence := s.must(txn)
	here := s.next(before)
	there, err := s.Next(s.Context(), authz.Scope{Location: other}, authz.Cursor{})
	if err != nil {
		s.Fatal(err)
	}
	s.checkStates(map[string]string{"a": "1"}, here)
	s.checkStates(map[string]string{"a": "2"}, there)
	if here.Cursor.Sequence != sequence || there.Cursor.Sequence != sequence {
		s.Errorf("the cursors are %+v and %+v", here.Cursor, there.Cursor)
	}
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("3")})
	loaded, err := s.Load(s.Context(), authz.Scope{Location: other})
	if err != nil || loaded.Cursor != there.Cursor {
		s.Errorf("the other location has moved to %+v, %v", loaded.Cursor, err)
	}
}

// testNextWaits follows at the head. Next returns with the next event and with nothing
// else: a write without an event, such as each operation makes, must not wake every
// sidecar of a fleet. The change comes right after the wait has begun, or before, so that
// a store which looks first and waits then would sleep through it.
func testNextWaits(s *subject) {
	cursor := s.load().Cursor
	for n := range 5 {
		updates := make(chan authz.Update)
		go func() {
			update, err := s.Next(s.Context(), authz.Scope{Location: s.location}, cursor)
			if err != nil {
				s.Errorf("following: %v", err)
			}
			updates <- update
		}()
		// Silent changes and those of other locations do not end the wait.
		s.put(admin.Put{Key: s.policy("silent")})
		s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: numbered(n)})
		update := <-updates
		s.checkStates(map[string]string{"a": fmt.Sprint(n)}, update)
		cursor = update.Cursor
	}
}

// testManyWait has 200 followers of one location wait at once, which may share a
// connection. All of them get the change: the first one must not take it away from the
// others.
func testManyWait(s *subject) {
	cursor := s.load().Cursor
	const count = 200
	var following sync.WaitGroup
	updates := make(chan authz.Update, count)
	for range count {
		following.Go(func() {
			update, err := s.Next(s.Context(), authz.Scope{Location: s.location}, cursor)
			if err != nil {
				s.Errorf("following: %v", err)
			}
			updates <- update
		})
	}
	// Writes without events, while they wait: none of them may return by these.
	for i := range 20 {
		s.put(admin.Put{Key: s.policy(fmt.Sprintf("silent%d", i))})
	}
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("A")})
	following.Wait()
	close(updates)
	for update := range updates {
		s.checkStates(map[string]string{"a": "A"}, update)
	}
}

// testFollow follows a location from Load on while it is being changed. Cursors only go
// forward, and what the updates add up to is what is stored in the end: that is the whole
// promise to a sidecar.
func testFollow(s *subject) {
	const changes, policies = 200, 7
	var running sync.WaitGroup
	begin := s.load()
	running.Go(func() {
		for n := range changes {
			id := fmt.Sprintf("p%d", n%policies)
			write := admin.Write(admin.Put{Key: s.policy(id), Value: numbered(n)})
			if n%11 == 0 {
				write = admin.Delete{Key: s.policy(id)}
			}
			s.change([]string{id}, write)
		}
		s.change([]string{"end"}, admin.Put{Key: s.policy("end"), Value: policy("end")})
	})
	// The follower keeps what a sidecar would keep: the last state of each policy.
	seen := make(map[string]string)
	for cursor := begin.Cursor; seen["end"] == ""; {
		update := s.next(cursor)
		if update.Cursor.Sequence <= cursor.Sequence {
			s.Fatalf("%+v follows %+v", update.Cursor, cursor)
		}
		for id, text := range states(update) {
			if seen[id] = text; text == "none" {
				delete(seen, id)
			}
		}
		cursor = update.Cursor
	}
	running.Wait()
	s.checkStates(seen, s.load())
}

// testTrimmed has a store that keeps only the last changes of a location. Anyone who is
// behind by more gets ErrTrimmed, and so has to load everything anew; anyone who is not gets
// all the changes that it has missed. A store that answered with what is left would leave
// a sidecar with policies that were changed long ago, for ever.
func testTrimmed(s *subject) {
	const kept = 5
	s.reopen(Config{StreamLength: kept})
	var cursors []authz.Cursor
	for n := range 3 * kept {
		s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: numbered(n)})
		cursors = append(cursors, s.load().Cursor)
	}
	for i, cursor := range append([]authz.Cursor{{}}, cursors[:len(cursors)-1]...) {
		update, err := s.Next(s.Context(), authz.Scope{Location: s.location}, cursor)
		// The change of the cursor itself need not be kept, only those after it.
		if missed := 3*kept - i; missed > kept {
			if !errors.Is(err, authz.ErrTrimmed) {
				s.Errorf("behind by %d: %v", missed, err)
			}
			continue
		}
		if err != nil || update.Cursor != cursors[len(cursors)-1] {
			s.Errorf("behind by %d: %+v, %v", 3*kept-i, update.Cursor, err)
		}
	}
	s.checkStates(map[string]string{"a": fmt.Sprint(3*kept - 1)}, s.load())
}

// testForeignCursor follows with cursors of another history: a failover to a replica that
// lacked the last changes gives the same numbers to other changes. The nonce shows it,
// also when the new history is shorter than, as long as, or longer than the cursor; the
// follower then loads everything anew.
func testForeignCursor(s *subject) {
	foreign := []authz.Cursor{{Sequence: 1, Nonce: "other"}, {Sequence: 7, Nonce: "other"}}
	check := func(what string) {
		for _, cursor := range foreign {
			if _, err := s.Next(s.Context(), authz.Scope{Location: s.location}, cursor); !errors.Is(err, authz.ErrTrimmed) {
				s.Errorf("%s, after %+v: %v", what, cursor, err)
			}
		}
	}
	check("without a change")
	s.change([]string{"a"})
	check("with one change")
	s.change([]string{"a"})
	check("with two changes")
	// By now the numbers of both cursors have been given to changes of this history.
	for s.change([]string{"a"}).Sequence < 9 {
	}
	check("with nine changes")
}

// loadHalves loads until the context is done, and checks that it never sees half a Txn.
func (s *subject) loadHalves(ctx context.Context) error {
	for ctx.Err() == nil {
		update, err := s.Load(ctx, authz.Scope{Location: s.location})
		if err != nil {
			return err
		}
		if err := s.checkState(update); err != nil {
			return fmt.Errorf("loading: %w", err)
		}
	}
	return nil
}

// followHalves follows until the context is done, and checks that it never sees half a
// Txn.
func (s *subject) followHalves(ctx context.Context) error {
	var cursor authz.Cursor
	for ctx.Err() == nil {
		update, err := s.Next(ctx, authz.Scope{Location: s.location}, cursor)
		if err != nil {
			return err
		}
		if err := s.checkState(update); err != nil {
			return fmt.Errorf("following: %w", err)
		}
		cursor = update.Cursor
	}
	return nil
}

// checkState is checkHalves of an update.
func (s *subject) checkState(update authz.Update) error {
	state := update.Policies[authz.PolicyName(s.policy("web"))]
	next := ""
	if len(state.Experiments) > 0 {
		next = state.Experiments[0].GetPolicy().GetDisplayName()
	}
	return checkHalves(state.Policy.GetDisplayName(), next)
}
