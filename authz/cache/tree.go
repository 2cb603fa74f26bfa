package cache

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"understudy/authz"
	"understudy/rego"
)

// tree holds the decisions of one compiled policy by what their evaluations asked. At the
// root is the first question that an evaluation asks, which is the same for all requests; each answer leads
// to the next question, which is fixed by the answers so far, and in the end to a decision.
//
//	input.…http.method? ─ "GET" ─ which prefixes has input.…http.path? ─ /public ─ ALLOW
//	                    │                                              └ none ─ claims.role? ─ …
//	                    └ "PUT" ─ …
//
// It is compressed: an entry is a stretch without a branch. A path that differs inside of one splits it.
// The ID of a node is a keyed hash of the answers on the way to it, so each entry is right on its own: it
// may be evicted at any time, be inserted twice, and come back to what is below it.
//
// It is bounded in bytes. It is safe for concurrent use.
type tree struct {
	stretches *otter.Cache[id, *stretch]
	interned  *interner
	// closed says that two evaluations contradicted each other: it has no decisions any more.
	closed atomic.Bool
}

// id names a node: requests that are at one node have given the same answers. That of a leaf names all
// requests that are decided alike, for the same reasons.
type id = rego.Answer

// root is the node at which look-ups begin. It is the leaf of all requests if nothing is asked of them, and so
// not zero, which says that a leaf is not known.
var root = id{1}

// stretch is what follows at a node: the questions that have had one answer so far, and then one that has had
// several, or the decision.
type stretch struct {
	steps []rego.Entry
	// branch is the question at the end, nil if that is the decision; end is the node at which it is asked.
	branch   *rego.Question
	end      id
	decision *authz.Decision
	// leaf is the node of the decision, and timed says that the clock was looked at on the way to it.
	leaf  id
	timed bool
	// weight is about what the decision takes, in bytes; zero if it is counted by the interner.
	weight uint32
}

// size is about what the stretch takes, in bytes.
func (s *stretch) size() uint32 {
	size := bytesPerStretch + bytesPerStep*uint32(len(s.steps)) + s.weight
	for _, step := range s.steps {
		size += step.Question.Bytes()
	}
	if s.branch != nil {
		size += s.branch.Bytes()
	}
	return size
}

// What parts of a tree take, in bytes.
const (
	bytesPerStretch = 272
	bytesPerStep    = 24
)

// shared is the part of a tree's memory that is for decisions which several stretches share: an eighth.
const shared = 8

// newTree returns an empty tree that takes some bytes at most.
func newTree(bytes uint64) (*tree, error) {
	stretches, err := otter.New(&otter.Options[id, *stretch]{
		MaximumWeight: bytes - bytes/shared,
		Weigher:       func(_ id, s *stretch) uint32 { return s.size() },
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of decisions: %w", err)
	}
	return &tree{stretches: stretches, interned: newInterner(bytes / shared)}, nil
}

// resize changes how many bytes the tree takes at most.
func (t *tree) resize(bytes uint64) {
	t.stretches.SetMaximum(bytes - bytes/shared)
	t.interned.resize(bytes / shared)
}

// find asks a request what was asked of others. If the answers lead to no decision it returns the first
// node that is not known.
func (t *tree) find(asks *rego.Evaluation) (d authz.Decision, missing id, ok bool) {
	at := root
	for !t.closed.Load() {
		s, known := t.stretches.GetIfPresent(at)
		if !known {
			return d, at, false
		}
		for _, step := range s.steps {
			answer, err := asks.Answer(step.Question)
			if err != nil {
				return d, at, false
			}
			if answer != step.Answer {
				return d, s.until(at, step.Question, answer), false
			}
		}
		if s.branch == nil {
			return s.made(), at, true
		}
		answer, err := asks.Answer(s.branch)
		if err != nil {
			return d, at, false
		}
		at = rego.NextNode(s.end, answer)
	}
	return d, at, false
}

// until returns the node after another answer to one of the steps of a stretch that begins at a node.
func (s *stretch) until(at id, question *rego.Question, answer rego.Answer) id {
	for _, step := range s.steps {
		if step.Question == question {
			break
		}
		at = rego.NextNode(at, step.Answer)
	}
	return rego.NextNode(at, answer)
}

// Contradiction is the error of two evaluations that gave the same answers, and of which one went on otherwise
// than the other: evaluations are not what this cache rests on.
type Contradiction struct {
	// Before and Now say what followed.
	Before, Now string
}

func (c *Contradiction) Error() string {
	return fmt.Sprintf("two evaluations with the same answers went on differently: with %s, and with %s", c.Before, c.Now)
}

// made returns the decision at the end.
func (s *stretch) made() authz.Decision { return s.decision.WithLeaf(s.leaf).WithTimed(s.timed) }

// keep inserts a decision with the record of its evaluation. It returns the decision as it will be
// found. The error is a *Contradiction, and ends the tree.
func (t *tree) keep(record []rego.Entry, d *authz.Decision, timed bool, weight uint32) (authz.Decision, error) {
	s, err := t.insert(record, stretch{decision: d, timed: timed, weight: weight})
	if err != nil {
		t.closed.Store(true)
		t.stretches.InvalidateAll()
	}
	return s.made(), err
}

// insert inserts a stretch with a decision. It returns the one that has it.
func (t *tree) insert(record []rego.Entry, last stretch) (*stretch, error) {
	at := root
	for {
		s, known := t.stretches.GetIfPresent(at)
		if !known {
			last.steps, last.leaf = slices.Clone(record), behind(at, record)
			t.stretches.Set(at, &last)
			return &last, nil
		}
		same, end := s.follow(at, record)
		rest := record[same:]
		switch {
		case same == len(s.steps) && s.branch == nil:
			if len(rest) > 0 || !authz.SameDecision(*s.decision, *last.decision) {
				return &last, &Contradiction{describe(nil, s.decision), describe(rest, last.decision)}
			}
			return s, nil
		case len(rest) == 0 || !rest[0].Question.Same(s.questionAt(same)):
			return &last, &Contradiction{s.questionAt(same).String(), describe(rest, last.decision)}
		case same < len(s.steps):
			t.split(at, s, same, end)
		}
		record = rest[1:]
		at = rego.NextNode(end, rest[0].Answer)
	}
}

// behind returns the node behind the steps of a record that goes on at a node.
func behind(at id, record []rego.Entry) id {
	for _, step := range record {
		at = rego.NextNode(at, step.Answer)
	}
	return at
}

// follow returns how many steps of a stretch, which begins at a node, a record begins with, and the node
// behind them.
func (s *stretch) follow(at id, record []rego.Entry) (int, id) {
	for i, step := range s.steps {
		if i == len(record) || step.Answer != record[i].Answer || !step.Question.Same(record[i].Question) {
			return i, at
		}
		at = rego.NextNode(at, step.Answer)
	}
	return len(s.steps), at
}

// questionAt returns the question of a step, or that at the end.
func (s *stretch) questionAt(i int) *rego.Question {
	if i < len(s.steps) {
		return s.steps[i].Question
	}
	return s.branch
}

// split makes a branch of a step of the stretch at a node. The node of the step is given. What is behind
// it is there before the way to it is.
func (t *tree) split(at id, s *stretch, step int, node id) {
	rest := *s
	rest.steps = s.steps[step+1:]
	t.stretches.Set(rego.NextNode(node, s.steps[step].Answer), &rest)
	t.stretches.Set(at, &stretch{steps: s.steps[:step:step], branch: s.steps[step].Question, end: node})
}

// describe says what a record goes on with.
func describe(rest []rego.Entry, d *authz.Decision) string {
	if len(rest) > 0 {
		return rest[0].Question.String()
	}
	return fmt.Sprintf("the decision %s of the rule %q", d.Effect, d.Rule)
}
