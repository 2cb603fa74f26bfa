package input_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"understudy/authz"
	"understudy/authz/extauthz/input"
	"understudy/rego"
)

// TestRequestsOfOneSealHaveOneValue makes requests that differ in two facts, or only in how these are written.
// What each has at its paths is what its whole document has there; and two requests that have the same seal at
// a place have the same there, or do not parse for the same reason.
func TestRequestsOfOneSealHaveOneValue(t *testing.T) {
	all, found := facts(), sealPairs{}
	r := rand.New(rand.NewPCG(1, 13))
	for i, one := range all {
		found.add(t, r, one.wires(r))
		for j, other := range all[:i] {
			if !testing.Short() || (i+j)%10 == 0 {
				found.add(t, r, wiresOf(r, one, other))
			}
		}
	}
	t.Logf("%d times a seal was seen before, %d times not", found.equal, found.different)
	if least := len(all) * len(all) * 3; !testing.Short() && (found.equal < least || found.different < least) {
		t.Errorf("the requests show too little: %d times a seal was seen before, %d times not", found.equal, found.different)
	}
}

// plainForms is how many of the first forms of two facts are tried each with each, and oddForms how many pairs of
// the others.
const plainForms, oddForms = 5, 20

// wiresOf returns requests in which two facts have many of their forms, and the others one. Now and then a
// message is sent in two parts, which are merged.
func wiresOf(r *rand.Rand, one, other fact) (out [][]byte) {
	theme := slices.Clone(scene(themes[r.IntN(len(themes))]))
	if r.IntN(2) == 0 {
		theme = append(theme, messages...)
	}
	theme = slices.DeleteFunc(theme, func(f field) bool { return one.has(f) || other.has(f) })
	for _, a := range one.forms[:min(len(one.forms), plainForms)] {
		for _, b := range other.forms[:min(len(other.forms), plainForms)] {
			out = append(out, append(theme, field{one.at, a}, field{other.at, b}).wire(r))
		}
	}
	for range oddForms {
		a, b := one.forms[r.IntN(len(one.forms))], other.forms[r.IntN(len(other.forms))]
		out = append(out, append(theme, field{one.at, a}, field{other.at, b}).wire(r))
	}
	return out
}

// wires returns requests that have each form of one fact, and say nothing else.
func (f fact) wires(r *rand.Rand) (out [][]byte) {
	for _, form := range f.forms {
		out = append(out, scene{field{f.at, form}}.wire(r))
	}
	return out
}

// sealPairs counts how often a seal was seen before, and how often not.
type sealPairs struct{ equal, different int }

// add holds requests against their documents and against each other.
func (p *sealPairs) add(t *testing.T, r *rand.Rand, wires [][]byte) {
	t.Helper()
	known := make(map[string]string)
	for _, wire := range wires {
		if input.FallbackOf(wire) != "" {
			continue
		}
		holdsParts(t, wire, r)
		parts := partsOf(t, wire)
		for _, place := range authz.SealedPlaces {
			path := pathTo([]any{place})
			seal, value := string(parts.Seal(path, []byte(place))), textAt(t, parts, path)
			other, found := known[seal]
			switch {
			case !found:
				known[seal] = value
				p.different++
			case other != value:
				t.Fatalf("%q: at %s is %s, and in a request of the same seal %s", wire, place, value, other)
			default:
				p.equal++
			}
		}
	}
}

// TestASealSaysWhetherThereIsALength has two requests of which one has an empty content-length, and the other none
// but a body in both of its fields, so that the other bytes of their seals are the same.
func TestASealSaysWhetherThereIsALength(t *testing.T) {
	form := field{httpMessage, header("content-type", "application/x-www-form-urlencoded")}
	r := rand.New(rand.NewPCG(1, 14))
	pairs := sealPairs{}
	pairs.add(t, r, [][]byte{
		scene{form, {httpMessage, header("content-length", "")}, {httpMessage, in(11, "\x02\x02")}}.wire(r),
		scene{form, {httpMessage, in(11, "\x02") + in(12, "\x02\x00")}}.wire(r),
	})
}

// textAt returns what stands at a path as text, or why nothing can.
func textAt(t *testing.T, parts rego.Request, path *rego.Path) string {
	t.Helper()
	value, err := parts.At(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%#v", documentOf(t, value.Input()))
}

// field is a field, or several, of a message of a request.
type field struct {
	// at are the numbers of the fields that lead to the message.
	at    string
	bytes string
}

// The messages of a request, by the numbers of the fields that lead to them.
const (
	attributesMessage  = "\x01"
	sourceMessage      = "\x01\x01"
	destinationMessage = "\x01\x02"
	requestMessage     = "\x01\x04"
	httpMessage        = "\x01\x04\x02"
)

// scene is a request: its fields, with those of a message in their order.
type scene []field

// wire writes the request.
func (s scene) wire(r *rand.Rand) []byte {
	s = slices.Clone(s)
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	half := len(s)
	if r.IntN(6) == 0 {
		half = r.IntN(len(s) + 1)
	}
	return []byte(s[:half].part() + s[half:].part() + in(1))
}

func (s scene) part() string {
	message := func(at string, below ...string) string {
		content, there := strings.Join(below, ""), false
		for _, f := range s {
			if f.at == at {
				content, there = content+f.bytes, true
			}
		}
		if content == "" && !there {
			return ""
		}
		return in(protowire.Number(at[len(at)-1]), content)
	}
	return message(attributesMessage, message(sourceMessage), message(destinationMessage), message(requestMessage, message(httpMessage)))
}
