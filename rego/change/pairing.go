package change

import (
	"cmp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// unlike returns the definitions that each policy has beyond the other. Of equal ones each counts.
func unlike(live, candidate *policy) (removed, added []*definition) {
	n := make(map[string]int)
	texts := make(map[*definition]string)
	for _, d := range candidate.definitions {
		texts[d] = d.text()
		n[texts[d]]++
	}
	for _, d := range live.definitions {
		if texts[d] = d.text(); n[texts[d]] > 0 {
			n[texts[d]]--
		} else {
			removed = append(removed, d)
		}
	}
	for _, d := range candidate.definitions {
		if n[texts[d]] > 0 {
			n[texts[d]]--
			added = append(added, d)
		}
	}
	return removed, added
}

// maxAlike bounds how many definitions are looked at for one that they may be the counterpart of, for each of
// its expressions.
const maxAlike = 16

// match is a definition of each policy with how much they have in common.
type match struct {
	live, candidate *definition
	n               int
}

// pair finds the counterparts of definitions: of the same name, with which they have most in common.
func pair(removed, added []*definition) map[*definition]*definition {
	like := make(map[string][]*definition)
	for _, d := range removed {
		for _, key := range slices.Concat(d.keys()) {
			like[key] = append(like[key], d)
		}
	}
	var matches []match
	for _, d := range added {
		texts, shapes := d.keys()
		found := d.matches(like, texts)
		if len(found) == 0 {
			found = d.matches(like, shapes)
		}
		matches = append(matches, found...)
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.n, a.n) })
	out := make(map[*definition]*definition)
	for _, m := range matches {
		if out[m.live] == nil && out[m.candidate] == nil {
			out[m.live], out[m.candidate] = m.candidate, m.live
		}
	}
	return out
}

// matches are the definitions that have a key in common with one, and what it counts for.
func (d *definition) matches(like map[string][]*definition, keys []string) (out []match) {
	tried := make(map[*definition]bool)
	for _, key := range keys {
		for _, l := range like[key][:min(maxAlike, len(like[key]))] {
			if tried[l] {
				continue
			}
			tried[l] = true
			if n := l.inCommon(d); n > 0 {
				out = append(out, match{l, d, n})
			}
		}
	}
	return out
}

// keys are texts of which a definition and its counterpart have one in common: those of its expressions, or
// those without constants, with all variables the same.
func (d *definition) keys() (texts, shapes []string) {
	name := d.name
	if d.bodies[0].rule.Default {
		name = "default " + name
	}
	for _, of := range d.bodies {
		for _, w := range d.texts(of, func(ast.Var) string { return "‹?›" }) {
			texts, shapes = append(texts, name+"\n"+w.text), append(shapes, name+"\nshape "+w.shape)
		}
		if len(of.expressions) == 0 {
			shapes = append(shapes, name+"\nfact "+d.headShape(of, func(ast.Var) string { return "‹?›" }))
		}
	}
	return texts, shapes
}

// inCommon is how much two definitions have in common: an expression counts twice, and one in which constants
// alone differ once, as does one below another head.
func (d *definition) inCommon(other *definition) (n int) {
	for i := range min(len(d.bodies), len(other.bodies)) {
		x, y := d.bodies[i], other.bodies[i]
		of, by := common(x, y, d.scope, other.scope)
		mine, others := d.texts(x, of), other.texts(y, by)
		removed, added := onlyIn(mine, others)
		if d.headShape(x, of) != other.headShape(y, by) {
			n += len(mine) - len(removed)
			continue
		}
		if len(x.expressions)+len(y.expressions) == 0 {
			n++ // facts
		}
		n += 2 * (len(mine) - len(removed))
		for _, w := range added {
			if j := slices.IndexFunc(removed, func(r written) bool { return r.shape == w.shape }); j >= 0 {
				n++
				removed = slices.Delete(removed, j, j+1)
			}
		}
	}
	return n
}
