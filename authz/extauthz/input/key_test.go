package input_test

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"understudy/authz"
	"understudy/authz/extauthz/input"
	"understudy/rego"
)

// TestThereIsNoKeyWhereNothingMayBeKept: at a moment at which the clock changes what is observed, and once
// nobody waits for the answer.
func TestThereIsNoKeyWhereNothingMayBeKept(t *testing.T) {
	set := authz.NewReadSet(reads(t, `[_, claims, _] := io.jwt.decode(input.attributes.request.http.headers.authorization); claims.exp > time.now_ns() / 1000000000`))
	ends := time.Unix(1_700_000_000, 0)
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1700000000}`)) + ".e30"
	_, check, err := reader().Read([]byte(oddHTTP(header("authorization", token))))
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[time.Time]bool{ends.Add(-time.Hour): true, ends: false, ends.Add(time.Hour): true} {
		if _, ok := check.Key(t.Context(), set, now, nil); ok != want {
			t.Errorf("at %v there is a key: %v, want %v", now, ok, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, check, err = reader().Read([]byte(oddHTTP(header("authorization", token+"x")))); err != nil {
		t.Fatal(err)
	}
	if _, ok := check.Key(over, set, ends.Add(-time.Hour), nil); ok {
		t.Error("there is a key after the end of the context")
	}
}

// seenRequest is a request whose key is known, with what a read set takes of its document.
type seenRequest struct {
	wire  []byte
	taken string
}

// TestRequestsOfOneKeyHaveOneDocument makes requests that differ in two facts, or only in how these are
// written: of any two facts each form with each, with read sets that take some of both. Two requests
// that have the same key for a read set have the same document as far as the set takes it, or do
// not parse for the same reason.
func TestRequestsOfOneKeyHaveOneDocument(t *testing.T) {
	all, policies := facts(t), keySets(t)
	found := keyPairs{}
	r := rand.New(rand.NewPCG(1, 13))
	for i, one := range all {
		found.add(t, append(policies, authz.NewReadSet(one.reads(r)), authz.NewReadSet(one.reads(r))), one.wires(r))
		for j, other := range all[:i] {
			if testing.Short() && (i+j)%8 != 0 {
				continue
			}
			sets := []*authz.ReadSet{policies[r.IntN(len(policies))]}
			for range 6 {
				sets = append(sets, authz.NewReadSet(one.reads(r).Union(other.reads(r))))
			}
			found.add(t, sets, wiresOf(r, one, other))
		}
	}
	t.Logf("%d times a key was seen before, %d times not", found.equal, found.different)
	if least := len(all) * len(all) * 10; !testing.Short() && (found.equal < least || found.different < least) {
		t.Errorf("the requests show too little: %d times a key was seen before, %d times not", found.equal, found.different)
	}
}

// plainForms is how many of the first forms of two facts are tried each with each, and oddForms how many pairs of
// the others.
const plainForms, oddForms = 9, 100

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

// keyPairs counts how often a key was seen before, and how often not.
type keyPairs struct{ equal, different int }

// add holds requests against each other by some read sets.
func (p *keyPairs) add(t *testing.T, sets []*authz.ReadSet, wires [][]byte) {
	t.Helper()
	known := make([]map[string]seenRequest, len(sets))
	for i := range sets {
		known[i] = make(map[string]seenRequest)
	}
	for _, wire := range wires {
		check, full := bothDecoders(t, wire)
		if check == nil {
			continue
		}
		for i, set := range sets {
			key, ok := check.Key(t.Context(), set, time.Unix(1_700_000_000, 0), nil)
			if !ok {
				t.Fatalf("%s: there is no key", set.Reads)
			}
			taken := takenOf(t, full, everything, set)
			if strings.HasPrefix(taken, badRequest) { // which need not be so of what the set takes
				taken = takenOf(t, full, set, set)
			}
			if other, found := known[i][string(key)]; !found {
				known[i][string(key)] = seenRequest{wire, taken}
				p.different++
				if got := takenOf(t, check, set, set); got != taken {
					t.Fatalf("%q: by the lazy decoder %s takes %q, by the full decode %q", wire, set.Reads, got, taken)
				}
			} else if p.equal++; other.taken != taken {
				t.Fatalf("two requests have one key for %s:\n%q\n%q\n%q\n%q", set.Reads, wire, other.wire, taken, other.taken)
			}
		}
	}
}

// bothDecoders reads a request by the lazy decoder, and by the full decode, to which a field that nobody
// knows leads. Both are nil if the lazy decoder does not read it: then it has no key.
func bothDecoders(t *testing.T, wire []byte) (lazy, full *input.Check) {
	t.Helper()
	if input.FallbackOf(wire) != "" {
		return nil, nil
	}
	_, lazy, err := reader().Read(wire)
	if err != nil {
		t.Fatal(err)
	}
	if _, full, err = reader().Read(append(slices.Clone(wire), in(99, "x")...)); err != nil {
		t.Fatal(err)
	}
	return lazy, full
}

// everything is the read set of a policy that takes the whole document.
var everything = authz.NewReadSet(rego.ReadsEverything)

// badRequest begins what is taken of a request that does not parse.
const badRequest = "bad request: "

// takenOf returns what a set takes of the document that is made of a request for another set, or why there is
// none.
func takenOf(t *testing.T, check *input.Check, of, set *authz.ReadSet) string {
	t.Helper()
	made, err := check.Input(nil, of)
	if err != nil {
		return badRequest + err.Error()
	}
	at := rego.ValidFrom(t.Context(), time.Unix(1_700_000_000, 0))
	return string(rego.AppendObserved(nil, set.Observe(), made, &at))
}

// keySets are read sets as policies have them.
func keySets(t *testing.T) (out []*authz.ReadSet) {
	t.Helper()
	sets := someReads(t)
	for _, condition := range []string{
		`p := input.parsed_path`, `p := input.parsed_path; p.x == 1`, `h := input.attributes.request.http; h.nothing`, `a := input.attributes.source.address; a.pipe`,
	} {
		sets = append(sets, reads(t, condition))
	}
	for _, set := range sets {
		out = append(out, authz.NewReadSet(set))
	}
	return out
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
