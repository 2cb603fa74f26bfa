package replay

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"understudy/authz/logreader"
	"understudy/rego"
)

// lostField is a field of the input that an entry has not as it was: it was taken out or replaced before
// the entry was logged, or cut off with others. It is immutable.
type lostField struct {
	// path are the names that lead to it, for messages.
	path  []string
	steps []step
	// certain are those up to the first that may be meant in several ways, or is a position.
	certain []string
	// erased says that it was taken out: in an array all behind it have moved up.
	erased bool
}

// step is a name or a position on the way to a field.
type step struct {
	// names are what a pointer may mean by it: some are escaped as RFC 6901 has it, some with percent
	// signs, and OPA's are not.
	names []string
	// position is the index that it is in an array, -1 for none.
	position int
}

func newLostField(path []string, erased bool) lostField {
	f := lostField{path: slices.Clone(path), erased: erased, certain: path}
	for i, text := range path {
		s := newStep(text)
		f.path[i], f.steps = s.names[0], append(f.steps, s)
		if i < len(f.certain) && (len(s.names) > 1 || s.position >= 0) {
			f.certain = path[:i]
		}
	}
	return f
}

func newStep(text string) step {
	name := unescaper.Replace(text)
	s := step{names: []string{name, text}, position: -1}
	if decoded, err := url.PathUnescape(name); err == nil {
		s.names = append(s.names, decoded)
	}
	s.names = slices.Compact(s.names)
	if n, err := strconv.Atoi(text); err == nil {
		s.position = n
	}
	return s
}

// unescaper takes back the escapes of RFC 6901.
var unescaper = strings.NewReplacer("~1", "/", "~0", "~")

// touches reports whether a path leads to the field, to something that has it, or into it.
func (f *lostField) touches(path *rego.Path) bool {
	for i := range min(len(f.steps), len(path.Keys)) {
		s := &f.steps[i]
		if name, isName := path.Name(i); isName {
			if !slices.Contains(s.names, name) {
				return false
			}
			continue
		}
		position, known := path.Position(i)
		moved := f.erased && i == len(f.steps)-1 && s.position >= 0 && position > s.position
		if known && position != s.position && !moved {
			return false
		}
	}
	return true
}

// lostFields returns the fields that an entry has not as they were, each once: those that its log says, and
// those that its document lacks of the ones that every document for Envoy has.
func lostFields(e *logreader.Entry, has fields) (out []lostField) {
	seen := make(map[string]bool)
	for i, pointers := range [][]string{e.Erased.Texts(), e.Masked.Texts()} {
		for _, text := range pointers {
			path := strings.Split(strings.Trim(text, "/"), "/")
			if path[0] == "input" && !seen[text] {
				seen[text] = true
				out = append(out, newLostField(path[1:], i == 0))
			}
		}
	}
	for field := fields(1); field < hasAll; field <<= 1 {
		if has&field == 0 && !slices.ContainsFunc(out, func(f lostField) bool { return f.has(envoyFields[field]) }) {
			out = append(out, newLostField(envoyFields[field], true))
		}
	}
	return out
}

// has reports whether a path leads to the field or into it.
func (f *lostField) has(path []string) bool {
	return len(f.path) <= len(path) && slices.Equal(f.path, path[:len(f.path)])
}

// fieldUse notes which of the fields that an entry lost a policy asks for, to decide on it. It is used by one
// goroutine. A nil one watches nothing.
type fieldUse struct {
	side *side
	lost []lostField
	// asked :: index of a field → whether it was asked for; nil if none was.
	asked []bool
}

// at notes that a path was asked for.
func (w *fieldUse) at(path *rego.Path) {
	if w == nil {
		return
	}
	for i := range w.lost {
		if w.lost[i].touches(path) {
			w.note(i)
		}
	}
}

// whole notes that OPA was given all of the input: it may have read whatever the policy's text names.
func (w *fieldUse) whole() {
	if w == nil {
		return
	}
	for i := range w.lost {
		if w.side.compiled.MayRead(w.lost[i].certain...) {
			w.note(i)
		}
	}
}

// project notes that the project was asked for, which no evaluation does: see addFacts.
func (w *fieldUse) project() {
	for i := range w.lost {
		for _, name := range []string{"project_id", "project_name", "project_domain_name"} {
			if w.lost[i].has([]string{"attributes", "contextExtensions", name}) {
				w.note(i)
			}
		}
	}
}

func (w *fieldUse) note(field int) {
	if w.asked == nil {
		w.asked = make([]bool, len(w.lost))
	}
	w.asked[field] = true
}

// missingField is a field that a policy asked for and an entry has not.
type missingField struct {
	side  *side
	field string
	path  []string
}

// missing returns the fields that were asked for.
func (w *fieldUse) missing() (out []missingField) {
	for i, asked := range w.asked {
		if asked {
			path := w.lost[i].path
			out = append(out, missingField{w.side, fieldOf(path), path})
		}
	}
	return out
}

// fieldOf is how a field is shown: as policies write it.
func fieldOf(path []string) string { return strings.Join(append([]string{"input"}, path...), ".") }
