package input

import (
	"understudy/authz"
	"understudy/rego"
)

// parts is a Check as evaluations and look-ups ask for it: what stands at a path is made of the wire when
// it is asked for. It is a [rego.Request].
type parts struct {
	check   *Check
	reading *authz.ReadBudget
}

// parts returns the request as it is asked for, within what reading may cost. The error is an
// *authz.BadRequest.
func (c *Check) parts(reading *authz.ReadBudget) (rego.Request, error) {
	if c.full {
		// Of a request that the lazy decoder has read it is known that they parse.
		if err := c.parses(); err != nil {
			return nil, err
		}
	}
	return parts{c, reading}, nil
}

// located is where a path leads: a place of the document, and the keys in what stands there.
type located struct {
	place part
	// only are the first of these keys, if the place has objects in which they can be looked for alone.
	only []string
	// rest is the number of keys that the place does not know.
	rest int
	// nowhere says that no request has anything there.
	nowhere bool
}

// locate finds out where a path leads.
func locate(p *rego.Path) any {
	at := part(document)
	for i := range p.Keys {
		name, isName := p.Name(i)
		switch of := at.(type) {
		case *objectPart:
			below, ok := of.members[name]
			if !isName || !ok {
				return located{nowhere: true}
			}
			at = below.part
			continue
		case *mapPart:
			if !isName {
				return located{nowhere: true}
			}
			at = entryText{of, name}
			continue
		case pathPart:
			if n, isPosition := p.Position(i); isPosition {
				at = segmentText(n)
				continue
			}
		}
		return located{place: at, only: namesOf(p, i), rest: len(p.Keys) - i}
	}
	return located{place: at}
}

// namesOf returns the keys of a path from one on, up to the first that is no name.
func namesOf(p *rego.Path, from int) (names []string) {
	for i := from; i < len(p.Keys); i++ {
		name, ok := p.Name(i)
		if !ok {
			break
		}
		names = append(names, name)
	}
	return names
}

// sealed returns a part that has to be parsed, nil for any other.
func (l located) sealed() sealedPart {
	s, _ := l.place.(sealedPart)
	return s
}

func locatedOf(p *rego.Path) located { return p.Located(locate).(located) }

// At is of [rego.Request].
func (p parts) At(path *rego.Path) (rego.Value, error) {
	l := locatedOf(path)
	if l.nowhere {
		return rego.Value{}, nil
	}
	c := p.check
	if l.sealed() != nil || len(path.Keys) == 0 { // it is read within bounds
		read := *c
		read.reading = p.reading
		c = &read
	}
	value, err := l.place.value(c, l.only)
	if err != nil || l.rest == 0 {
		return value, err
	}
	return value.Below(path, len(path.Keys)-l.rest), nil
}

// Sealed is of [rego.Request]: the body and the query are.
func (parts) Sealed(path *rego.Path) bool { return locatedOf(path).sealed() != nil }

// Seal is of [rego.Request].
func (p parts) Seal(path *rego.Path, b []byte) []byte {
	return locatedOf(path).sealed().seal(p.check, b)
}
