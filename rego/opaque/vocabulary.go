package opaque

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The most derivations and questions that a vocabulary has, for a policy whose data makes many. What
// would be beyond is forced.
const (
	mostDerivations = 4096
	mostQuestions   = 8192
	mostCanonical   = 1024
	// maxCanonical is the size of the largest term that was made of constants and is one, in bytes.
	maxCanonical = 8 << 10
)

// Vocabulary has the derivations and the questions of one program. It is safe for concurrent use,
// after all of its texts were added.
type Vocabulary struct {
	mu sync.RWMutex
	// paths :: what the keys of a path are written as → the value that stands there.
	paths map[string]*derivation
	// derivations are those by functions.
	derivations map[derivationKey]*derivation
	questions   map[questionKey]*Question
	// canonical :: what a term is written as → the one term of the program that stands for it.
	canonical map[string]*ast.Term
	// texts :: test → those with which the program compares by it.
	texts map[*Test]*texts
	// usuals :: collection of the program → what Usual says of it, which takes long for a large one.
	usuals sync.Map
	// count is the number of derivations, and composites of those that are arrays and objects.
	count, composites int
	pool              sync.Pool
	// answers are those that follow from single texts; nil until one is cached. They take answerBytes at most.
	answers     atomic.Pointer[answerCache]
	answerBytes uint64
}

// NewVocabulary returns one that has only the input.
func NewVocabulary() *Vocabulary {
	v := &Vocabulary{
		paths: make(map[string]*derivation), derivations: make(map[derivationKey]*derivation),
		questions: make(map[questionKey]*Question), canonical: make(map[string]*ast.Term), texts: make(map[*Test]*texts),
	}
	v.path(nil)
	return v
}

// Input returns the value at a path of the input, as far as the keys may be in one, and how many keys those
// are. It is for when a program is compiled; evaluations pass the value to [Evaluation.Input].
func (v *Vocabulary) Input(keys []*ast.Term) (value Value, n int) {
	for n < len(keys) && isKey(keys[n]) {
		n++
	}
	for ; n > 0; n-- {
		if d := v.path(keys[:n:n]); d != nil {
			return Value{from: d}, n
		}
	}
	return Value{from: v.path(nil)}, 0
}

// known returns what is known of a key, or what made returns, once for all. It is the zero value if made
// reports that there is no room.
func known[K comparable, V any](v *Vocabulary, all map[K]V, key K, made func() (V, bool)) V {
	v.mu.RLock()
	found, ok := all[key]
	v.mu.RUnlock()
	if ok {
		return found
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if found, ok = all[key]; ok {
		return found
	}
	if found, ok = made(); !ok {
		var none V
		return none
	}
	all[key] = found
	return found
}

// path returns the derivation of a path; nil if there is no room for it.
func (v *Vocabulary) path(keys []*ast.Term) *derivation {
	var text []byte // that of a reference would be one for input and input[""], and for input[1] and input["1"]
	for _, k := range keys {
		text = appendTerm(text, k)
	}
	return known(v, v.paths, string(text), func() (*derivation, bool) {
		own := make([]*ast.Term, len(keys))
		for i, k := range keys {
			own[i] = Placeless(k)
		}
		d := &derivation{path: &Path{Keys: own}}
		d.origin.source = d
		return v.add(d)
	})
}

// add numbers a derivation. It reports false if there is no room.
func (v *Vocabulary) add(d *derivation) (*derivation, bool) {
	if v.count == mostDerivations {
		return nil, false
	}
	d.number = v.count
	v.count++
	return d, true
}

// deriveOrPath returns the derivation of a key: a longer path if it is what stands at a constant key
// below a path. It is nil if there is no room for it, and for what is made of all of the input.
func (v *Vocabulary) deriveOrPath(key derivationKey) *derivation {
	if from := key.operands[0].from; key.function == GetKey && from != nil && from.path != nil {
		if k := key.operands[1]; k.IsConstant() && isKey(k.term) {
			return v.path(append(slices.Clip(from.path.Keys), k.term))
		}
	}
	for _, o := range key.operands {
		if o.isRoot() {
			return nil
		}
	}
	return v.derive(key)
}

// derive returns the derivation of a key; nil if there is no room for it.
func (v *Vocabulary) derive(key derivationKey) *derivation {
	return known(v, v.derivations, key, func() (*derivation, bool) { return v.add(newDerivation(key)) })
}

// constantOf returns a term that was made of constants alone as a value of the program. What has no room
// is computed each time.
func (v *Vocabulary) constantOf(e *Evaluation, t *ast.Term) Value {
	if t == nil {
		return Value{}
	}
	e.buffer = appendTerm(e.buffer[:0], t)
	if len(e.buffer) > maxCanonical {
		return Computed(t)
	}
	constant := known(v, v.canonical, string(e.buffer), func() (*ast.Term, bool) { return t, len(v.canonical) < mostCanonical })
	if constant == nil {
		return Computed(t)
	}
	return Constant(constant)
}

// usual returns what Usual says of a term of the program.
func (v *Vocabulary) usual(t *ast.Term) Truth {
	if !isCollection(t) {
		return truthOf(usual(t))
	}
	if known, ok := v.usuals.Load(t); ok {
		return known.(Truth)
	}
	found := truthOf(usual(t))
	v.usuals.Store(t, found)
	return found
}

// question returns the question of a key; nil if there is no room for it.
func (v *Vocabulary) question(key questionKey) *Question {
	return known(v, v.questions, key, func() (*Question, bool) {
		if len(v.questions) == mostQuestions {
			return nil, false
		}
		return &Question{questionKey: key, number: len(v.questions), origin: originOfQuestion(key)}, true
	})
}
