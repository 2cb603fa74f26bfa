package opaque

// MostAsked is how many questions one evaluation asks. What would be a further one is answered by
// the whole of what it is about. A loop over a list of the policy's data asks for each of its elements, and such
// lists have some hundreds: of patterns, networks or routes.
const MostAsked = 512

// mostEntries is the length of the longest record that is of use.
const mostEntries = 1024

// Record is what an evaluation has learned of its request.
type Record struct {
	Entries []Entry
	// Places are those that asked: one for each of Entries, nil where it is not known.
	Places []*Position
	// Once says that it is of no use for another request: it has what the clock shows, or all of the
	// input.
	Once bool
	// OnceAt is the first place for which it is; nil if that is not known, or if the evaluation ended with an
	// error.
	OnceAt *Position
}

// Position is a line of a policy.
type Position struct {
	// File is the module, and Row the line in it, from 1.
	File string
	Row  int
}

// Entry is one question with its answer.
type Entry struct {
	Question *Question
	Answer   Answer
}

// recorder writes down what an evaluation learns.
type recorder struct {
	// on says that it does.
	on     bool
	record Record
	// at is the place that asks; nil if it is not known.
	at *Position
}

// full reports whether there is no room for a further question of the policy.
func (r *recorder) full() bool { return len(r.record.Entries) >= MostAsked }

// add writes down a question with its answer.
func (r *recorder) add(q *Question, a Answer) {
	if !r.on {
		return
	}
	if len(r.record.Entries) == mostEntries {
		r.abandon()
		return
	}
	r.record.Entries, r.record.Places = append(r.record.Entries, Entry{q, a}), append(r.record.Places, r.at)
}

// abandon says that the record is of no use for another request.
func (r *recorder) abandon() {
	if !r.record.Once {
		r.record.Once, r.record.OnceAt = true, r.at
	}
}

// end forgets the request. What there is room for stays.
func (r *recorder) end() {
	clear(r.record.Entries)
	r.record = Record{Entries: r.record.Entries[:0], Places: r.record.Places[:0]}
	r.at = nil
}
