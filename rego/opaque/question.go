package opaque

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/open-policy-agent/opa/v1/ast"
)

// kind is what a question asks for.
type kind uint8

const (
	// askTest asks for the outcome of a test.
	askTest kind = iota
	// askTexts asks which of all texts of a test fulfil it with a value.
	askTexts
	// askKeys asks for the keys of an object, or how many elements an array has.
	askKeys
	// askContent asks for the content.
	askContent
	// askSeal asks for all of which what stands at a sealed path is made.
	askSeal
	// askBound asks for the outcome of a test of a value and a number that the evaluation has computed.
	askBound
)

// Question is something that an evaluation learns of a request. Questions of one vocabulary
// are equal if they are the same, but for those with a number: see Same.
type Question struct {
	questionKey
	number int
	// bound is the number of askBound, and common the question of the vocabulary that stands for those with any
	// number. Both are nil for another question.
	bound  *ast.Term
	common *Question
	// origin is what the answer follows from; it has no source for askBound.
	origin origin
}

// questionKey is by what a question is known.
type questionKey struct {
	kind kind
	test *Test
	// a and b are the operands. That of the number of askBound is none.
	a, b Value
	// turn counts those of askBound in an evaluation: one after the other may have another number.
	turn int
}

// Same reports whether two questions, or none, are equal.
func (q *Question) Same(other *Question) bool {
	if q == nil || other == nil || q.bound == nil || other.bound == nil {
		return q == other
	}
	return q.common == other.common && q.bound.Value == other.bound.Value
}

// bytesPerBound is about what a question with a number takes, in bytes.
const bytesPerBound = 256

// Bytes is about how much memory the question takes besides what its vocabulary has, in bytes.
func (q *Question) Bytes() uint32 {
	if q.bound == nil {
		return 0
	}
	return bytesPerBound
}

// operands returns the values that are tested.
func (q *Question) operands() (a, b Value) {
	a, b = q.a, q.b
	switch {
	case q.bound == nil:
	case a.IsNone():
		a = Computed(q.bound)
	default:
		b = Computed(q.bound)
	}
	return a, b
}

// Answer is what was learned. Two answers to a question are equal only if an evaluation cannot tell
// them apart: what callers choose is in it as 128 bits of a SHA-256 under a key of the process, and not
// as such.
type Answer [2]uint64

// The second halves of answers that are no hashes: what these are, is in the first one.
const (
	answerTruth = 1 + iota
	answerAbsent
	answerKeys
	answerStable
	answerPlace
)

// otherAnswer is that of a value of which a test says nothing for any text: it is of another type.
var otherAnswer = Answer{1, answerAbsent}

// key is that of the hashes of this process.
var key = newKey()

func newKey() (k [16]byte) {
	rand.Read(k[:]) // which never fails
	return k
}

// Next returns the hash of an ID with an answer.
func Next(id, answer Answer) Answer {
	var b [48]byte
	copy(b[:], key[:])
	for i, word := range [4]uint64{id[0], id[1], answer[0], answer[1]} {
		binary.LittleEndian.PutUint64(b[16+8*i:], word)
	}
	return hash(b[:])
}

func hash(b []byte) Answer {
	sum := sha256.Sum256(b)
	return Answer{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
}

// Answer answers a question in a look-up. The error says that it cannot be answered.
func (e *Evaluation) Answer(q *Question) (Answer, error) {
	cached := e.findText(&q.origin)
	if cached {
		if answer, ok := e.text.cachedAnswer(q); ok {
			return answer, nil
		}
	}
	a, err := e.answer(q)
	if cached && err == nil {
		e.text.addAnswer(q, a.answer)
	}
	return a.answer, err
}

// ask asks a question in an evaluation, and writes it down with its answer. What was asked before is known.
func (e *Evaluation) ask(q *Question) (answered, error) {
	e.grow(0, q.number+1)
	if known := e.answers[q.number]; known.known {
		return known, nil
	}
	found, err := e.answer(q)
	if err != nil {
		return answered{}, err
	}
	found.known = true
	e.answers[q.number] = found
	e.asked = append(e.asked, q.number)
	e.recorder.add(q, found.answer)
	return found, nil
}

// answer finds the answer to a question.
func (e *Evaluation) answer(q *Question) (out answered, err error) {
	if q.kind == askSeal {
		return answered{answer: e.hashed(func(b []byte) []byte { return e.source.Seal(q.a.from.path, b) })}, nil
	}
	if truth, ok := e.clockTest(q); ok {
		return answered{truth: truth, answer: Answer{uint64(truth), answerTruth}}, nil
	}
	left, right := q.operands()
	a, err := e.look(left)
	if err != nil {
		return answered{}, err
	}
	switch q.kind {
	case askContent:
		out.answer = e.contentAnswer(q.a, a)
	case askKeys:
		out.answer = e.keysAnswer(a)
	case askTexts:
		out = e.textsAnswer(q, a)
	default:
		b, err := e.look(right)
		if err != nil {
			return answered{}, err
		}
		out.truth = e.run(q.test, a, b, right.IsNone())
		out.answer = Answer{uint64(out.truth), answerTruth}
	}
	return out, nil
}

// run runs a test. Single says that it is one of a single value.
func (e *Evaluation) run(test *Test, a, b *ast.Term, single bool) Truth {
	switch {
	case a == nil, b == nil && !single:
		return test.absent
	case test == Usual && isCollection(a):
		if e.usuals == nil {
			e.usuals = make(usuals)
		}
		return truthOf(e.usuals.of(a))
	}
	return test.of(a, b)
}

// textsAnswer asks a test for all of its texts.
func (e *Evaluation) textsAnswer(q *Question, content *ast.Term) (out answered) {
	if content == nil {
		return answered{alike: true, truth: q.test.absent, answer: Answer{0, answerAbsent}}
	}
	found, ok := q.test.texts(e.vocabulary.texts[q.test], content)
	switch {
	case !ok:
		return answered{alike: true, truth: q.test.other, answer: otherAnswer}
	case len(found) == 0:
		return answered{answer: Answer{0, answerPlace}}
	case len(found) == 1:
		return answered{matches: found, answer: Answer{1 + uint64(found[0]), answerPlace}}
	}
	return answered{matches: found, answer: e.hashed(found.form)}
}

// contentAnswer is what stands for a content.
func (e *Evaluation) contentAnswer(v Value, content *ast.Term) Answer {
	if content == nil {
		return Answer{0, answerAbsent}
	}
	if isCollection(content) && e.stable(v) {
		// It is there as long as the program is, and large.
		return Answer{uint64(uintptr(unsafe.Pointer(content))), answerStable}
	}
	return e.hashed(func(b []byte) []byte { return appendTerm(b, content) })
}

func isCollection(t *ast.Term) bool {
	switch t.Value.(type) {
	case *ast.Array, ast.Object, ast.Set:
		return true
	}
	return false
}

// hashed returns the hash of what write appends.
func (e *Evaluation) hashed(write func([]byte) []byte) Answer {
	e.buffer = write(append(e.buffer[:0], key[:]...))
	return hash(e.buffer)
}

// appendTerm appends what only this term is written as: numbers with all of their digits as they
// were sent, and collections with their lengths.
func appendTerm(b []byte, t *ast.Term) []byte {
	switch v := t.Value.(type) {
	case ast.Null:
		return append(b, 'n')
	case ast.Boolean:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case ast.Number:
		return appendText(append(b, '0'), string(v))
	case ast.String:
		return appendText(append(b, 's'), string(v))
	case *ast.Array:
		b = binary.AppendUvarint(append(b, 'a'), uint64(v.Len()))
		for i := range v.Len() {
			b = appendTerm(b, v.Elem(i))
		}
		return b
	case ast.Set:
		b = binary.AppendUvarint(append(b, 'u'), uint64(v.Len()))
		for _, element := range v.Slice() {
			b = appendTerm(b, element)
		}
		return b
	case ast.Object:
		b = binary.AppendUvarint(append(b, 'o'), uint64(v.Len()))
		keys := v.KeysIterator()
		for k, more := keys.Next(); more; k, more = keys.Next() {
			b = appendTerm(appendTerm(b, k), v.Get(k))
		}
		return b
	}
	panic(fmt.Sprintf("opaque: a content of the type %T", t.Value))
}

// Identical reports whether two terms are written alike, with all digits of their numbers.
func Identical(a, b *ast.Term) bool {
	return a == b || bytes.Equal(appendTerm(nil, a), appendTerm(nil, b))
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
