package cache

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"understudy/authz"
	"understudy/rego"
)

// Asked counts what evaluations of a policy ask requests, and which answers its cache has not had: by that it is
// seen what keeps decisions from repeating. Every request is evaluated. It is used by one goroutine.
type Asked struct {
	policy *Policy
	// Requests is the number of requests, Known that of those that would have been hits.
	Requests, Known int64
	questions       map[askedAt]*answers
}

// askedAt is a question at a place; the question is nil for what is of no use to another request.
type askedAt struct {
	rego.Place
	question *rego.Question
}

// answers are those to a question.
type answers struct {
	asked, new int64
	different  map[rego.Answer]struct{}
}

// mostAnswers is how many different answers to a question are counted.
const mostAnswers = 1 << 14

// AskedQuestion is what is known of one question.
type AskedQuestion struct {
	// File and Row are where it is asked; empty and 0 for what every evaluation learns of a request beforehand.
	File string `json:"file,omitempty"`
	Row  int    `json:"row,omitempty"`
	// Question says what is asked. It has nothing of a request.
	Question string `json:"question"`
	// Asked is how often it was asked, and New how often the answer was new after all answers before it, so
	// that the policy had to be evaluated.
	Asked int64 `json:"asked"`
	New   int64 `json:"new"`
	// Answers is the number of different answers; no more than 16,384 are counted.
	Answers int `json:"answers"`
}

// What is of no use to another request is no question, but counted as one.
const (
	onceText  = "the clock itself, or the whole input: of no use to another request"
	errorText = "an error, or a form of Rego that only OPA evaluates"
)

// NewAsked returns a count for a policy that is recordable, in front of which there is a cache with room for
// about a number of decisions.
func NewAsked(compiled *authz.Policy, size int) (*Asked, error) {
	if !compiled.Recordable() {
		return nil, fmt.Errorf("counting what is asked: no decision of the policy is cached")
	}
	a := &Asked{policy: NewPolicy(compiled), questions: make(map[askedAt]*answers)}
	return a, a.policy.SetSize(size)
}

// Count has the policy decide a request that has Parts, as of the request's time.
func (a *Asked) Count(ctx context.Context, r *authz.Request, c authz.Conditions) {
	a.Requests++
	plain, learned := r.Parts, false
	defer func() { r.Parts = plain }()
	r.Parts = func(reading *authz.ReadBudget) (rego.Request, error) {
		parts, err := plain(reading)
		return sealed{parts}, err
	}
	c.Learned = func(record rego.Record, d authz.Decision) authz.Decision {
		learned = true
		a.learned(record)
		return a.policy.keep(record, d)
	}
	a.policy.compiled.Decide(ctx, r, c)
	if !learned { // it is exempt
		a.Known++
	}
}

// learned counts a record.
func (a *Asked) learned(record rego.Record) {
	all := make([]*answers, len(record.Entries))
	for i, entry := range record.Entries {
		all[i] = a.at(record.Places[i], entry.Question.Common())
		all[i].asked++
		if len(all[i].different) < mostAnswers {
			all[i].different[entry.Answer] = struct{}{}
		}
	}
	unknown, known := a.policy.tree.unknown(record.Entries)
	switch {
	case record.Once:
		once := a.at(record.OnceAt, nil)
		once.asked++
		once.new++
	case known:
		a.Known++
	case unknown < len(all):
		all[unknown].new++
	}
}

// at returns the answers to a question at a place.
func (a *Asked) at(place *rego.Place, question *rego.Question) *answers {
	key := askedAt{question: question}
	if place != nil {
		key.Place = *place
	}
	if a.questions[key] == nil {
		a.questions[key] = &answers{different: make(map[rego.Answer]struct{})}
	}
	return a.questions[key]
}

// Questions returns all that was asked: first what had most new answers, then what was asked most.
func (a *Asked) Questions() []AskedQuestion {
	out := make([]AskedQuestion, 0, len(a.questions))
	for key, of := range a.questions {
		text := onceText
		switch {
		case key.question != nil:
			text = key.question.String()
		case key.File == "":
			text = errorText
		}
		out = append(out, AskedQuestion{key.File, key.Row, text, of.asked, of.new, len(of.different)})
	}
	slices.SortFunc(out, func(x, y AskedQuestion) int {
		return cmp.Or(cmp.Compare(y.New, x.New), cmp.Compare(y.Asked, x.Asked), cmp.Compare(x.File, y.File), cmp.Compare(x.Row, y.Row), cmp.Compare(x.Question, y.Question))
	})
	return out
}

// unknown returns the place in a record of the first answer that the tree does not know after those before it. It
// reports true if it knows all of them, and so has the decision.
func (t *tree) unknown(record []rego.Entry) (i int, known bool) {
	at := root
	for {
		s, found := t.stretches.GetIfPresent(at)
		if !found {
			return max(0, i-1), false
		}
		same, end := s.follow(at, record[i:])
		if i += same; i == len(record) {
			return i, true
		}
		at = rego.NextNode(end, record[i].Answer)
		i++
	}
}

// sealed is a request in which the same is sealed as in those of Envoy: one that was recorded has no texts to
// parse, but a sidecar's had.
type sealed struct{ rego.Request }

// Sealed is of [rego.Request].
func (s sealed) Sealed(p *rego.Path) bool {
	name, _ := p.Name(0)
	return s.Request.Sealed(p) || slices.Contains(authz.SealedPlaces, name)
}

// Seal is of [rego.Request].
func (s sealed) Seal(p *rego.Path, b []byte) []byte {
	if s.Request.Sealed(p) {
		return s.Request.Seal(p, b)
	}
	whole, err := s.At(&rego.Path{Keys: p.Keys[:1]})
	if err != nil {
		return append(b, err.Error()...)
	}
	sealed, err := rego.AppendInput(b, whole.Input())
	if err != nil {
		return append(b, err.Error()...)
	}
	return sealed
}
