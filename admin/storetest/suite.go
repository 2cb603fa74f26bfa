// Package storetest proves that a store keeps the contracts of admin.Store and
// authz.Feed.
//
// The suite is one list of promises, which Run checks on any store that can be opened. A
// test has a subject: the store, and a project that no other test uses. It makes Txns and
// looks at what Get, List, Load and Next then return; it never looks at how a store keeps
// its records. So what it says holds for a file as for a cluster, and anyone who writes a
// third store has its specification here. Only damage is done in the technology's own
// storage, by a function of the store's tests.
//
// Every store's own tests call Run, and have more of their own only for what their
// technology alone can do wrong, such as a failover or a torn write. Redis starts a private
// redis-server for the tests of any package.
package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"understudy/admin"
	"understudy/authz"
)

// Both is what a store implements.
type Both interface {
	admin.Store
	authz.Feed
}

// Config is how a test wants its store.
type Config struct {
	// Clock is what records expire by. Nil means the system's.
	Clock func() time.Time
	// StreamLength is the number of changes kept for a location. Zero means the
	// store's default, which is at least 1,000.
	StreamLength int
}

// Open opens a store for a test and closes it when the test ends. Stores of several
// tests may share a server: each test has a project of its own.
type Open func(t testing.TB, c Config) Both

// Damage harms the record under a key in the technology's own storage, behind the back of
// the store, so that the store cannot read it any more.
type Damage func(t testing.TB, store Both, key admin.Key)

// Run runs the whole suite. damages are the ways, by name, in which a record can be harmed;
// the tests about damage run once for each of them, for a store may keep a record in several
// places, each of which can be lost alone.
func Run(t *testing.T, open Open, damages map[string]Damage) {
	groups := []group{
		{"Conditions", conditionTests},
		{"Writes", writeTests},
		{"Collections", collectionTests},
		{"Reads", readTests},
		{"Summaries", summaryTests},
		{"Expiry", expiryTests},
		{"Races", raceTests},
		{"Feed", feedTests},
		{"Nodes", nodeTests},
		{"Watermark", watermarkTests},
		{"Evidence", evidenceTests},
		{"Contents", contentTests},
		{"Contexts", contextTests},
		{"Undecodable", undecodableTests},
	}
	for name, damage := range damages {
		groups = append(groups, group{"Damage/" + name, damageTests(damage)})
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, test := range g.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(newSubject(t, open))
				})
			}
		})
	}
}

// group is what the tests of one part of the contract have in common.
type group struct {
	name  string
	tests []test
}

// test is one test of the suite.
type test struct {
	name string
	run  func(*subject)
}

// subject is the store under test, with a project of its own.
type subject struct {
	testing.TB
	Both
	open     Open
	project  string
	location authz.Location
	// txns counts the Txns that got their ID here: a store remembers IDs, so a Txn with the
	// ID of an earlier one would be taken for its repetition.
	txns atomic.Int64
}

// projects counts the projects of all tests of this process.
var projects atomic.Int64

// newSubject returns the store under test with a project that no other test has, so that
// tests can share one server and run at once.
func newSubject(t testing.TB, open Open) *subject {
	s := newProject(t, nil)
	s.open, s.Both = open, open(t, Config{})
	return s
}

// newProject returns a subject with another project on a store that is open already.
// Project IDs are counted, not random: a failure can be found again.
func newProject(t testing.TB, store Both) *subject {
	project := fmt.Sprintf("p%d", projects.Add(1))
	return &subject{
		TB: t, Both: store, project: project,
		location: authz.Location("projects/" + project + "/locations/l1"),
	}
}

// reopen gives the subject a store with another configuration. Nothing of the project is in
// it: a file is a new one, and on a shared server the project was not used yet.
func (s *subject) reopen(c Config) { s.Both = s.open(s.TB, c) }

// policies is the collection of the location's policies.
func (s *subject) policies() admin.Collection { return admin.Collection(s.location + "/policies") }

// policy is the key of a policy in the subject's location.
func (s *subject) policy(id string) admin.Key { return admin.Key(string(s.policies()) + "/" + id) }

// experiments is the collection below a policy: what a cascade removes, and what a limit
// counts.
func (s *subject) experiments(policy string) admin.Collection {
	return admin.Collection(s.policy(policy) + "/experiments")
}

// experiment is the key of an experiment, a record two levels below its location.
func (s *subject) experiment(policy, id string) admin.Key {
	return admin.Key(string(s.experiments(policy)) + "/" + id)
}

// operation is the key of a record that is no policy and part of no event: what a store
// does for followers must not touch it.
func (s *subject) operation(id string) admin.Key {
	return admin.Key(string(s.location) + "/operations/" + id)
}

// txn returns a Txn of the subject's project with an ID of its own. Its policies and
// experiments get the names under which they are put.
func (s *subject) txn(conditions []admin.Condition, writes ...admin.Write) admin.Txn {
	for i, w := range writes {
		writes[i] = named(w)
	}
	return admin.Txn{
		ID:         fmt.Sprintf("%s-%d", s.project, s.txns.Add(1)),
		Project:    s.project,
		Conditions: conditions,
		Writes:     writes,
	}
}

// must commits a Txn that cannot fail.
func (s *subject) must(txn admin.Txn) int64 {
	s.Helper()
	sequence, err := s.Commit(s.Context(), txn)
	if err != nil {
		s.Fatalf("committing: %v", err)
	}
	return sequence
}

// put makes writes that depend on nothing.
func (s *subject) put(writes ...admin.Write) int64 {
	s.Helper()
	return s.must(s.txn(nil, writes...))
}

// change is put with an event that names the policies with these IDs.
func (s *subject) change(ids []string, writes ...admin.Write) authz.Cursor {
	s.Helper()
	txn := s.txn(nil, writes...)
	txn.Events = s.event(ids...)
	return authz.Cursor{Sequence: s.must(txn)}
}

// event is a Txn's events: one for the subject's location, with the policies of these
// IDs. What it names need not be written by the same Txn.
func (s *subject) event(ids ...string) []admin.Event {
	e := admin.Event{Location: s.location}
	for _, id := range ids {
		e.Policies = append(e.Policies, s.location.Policy(authz.PolicyID(id)))
	}
	return []admin.Event{e}
}

// get reads one record. What is not there is a zero Record, as Store.Get has it.
func (s *subject) get(key admin.Key) admin.Record {
	s.Helper()
	records, err := s.Get(s.Context(), key)
	if err != nil {
		s.Fatalf("reading %s: %v", key, err)
	}
	return records[0]
}

// has reports whether there is a record: an expired one is none, a damaged one is.
func (s *subject) has(key admin.Key) bool {
	s.Helper()
	return s.get(key).Key != ""
}

// list reads whole records of a collection, in the order in which the store returns them.
func (s *subject) list(q admin.Query) []admin.Record {
	s.Helper()
	records, err := s.List(s.Context(), q)
	if err != nil {
		s.Fatalf("listing %s: %v", q.Collection, err)
	}
	return records
}

// names lists a collection and returns the keys.
func (s *subject) names(q admin.Query) []admin.Key {
	s.Helper()
	var out []admin.Key
	for _, r := range s.list(q) {
		out = append(out, r.Key)
	}
	return out
}
