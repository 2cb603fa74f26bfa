package replay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz/logreader"
)

// readers are rules that read parts of an input with the members a, b, c and d, most of them on one path and
// not on another.
var readers = []string{
	`allow if input.a == 1`,
	`allow if { input.a == 1; input.b.x == 1 }`,
	`allow if { input.b.x == 1; input.b.y == input.a }`,
	`allow if { input.a == 1; count(input.b) == 2 }`,
	`allow if { input.a == 1; some v in input.c; v == 1 }`,
	`allow if { input.a == 1; input.c[1] == 1 }`,
	`allow if { input.c[0] == 1; input.c[2].x == 1 }`,
	`allow if { input.a == 1; input.d[1][1] == 1 }`,
	`allow if { input.a == 1; some k; input.b[k] == 1; k == "x" }`,
	`allow if { input.a == 1; count(input) == 4 }`,
	`allow if { input.a == 1; object.get(input, ["b", "x"], 2) == 1 }`,
	`allow if { input.a == 1; walk(input.d, [_, 1]) }`,
	`allow if { input.a == 1; input[input.b.y] == 1 }`,
	`allow if { input.a == 1; part(input.b) }
part(b) if b.x == 1`,
	`allow if { input.a == 1; not denied }
denied if input.b["s/t"] == 1`,
	`allow if { input.a == 1; allowed with data.none as 1 }
allowed if input.b.x == 1`,
	`allow := value
value := true if input.a == 1
value := false if input.b.x == 1`,
}

// TestWhatIsComparedIsDecidedAsItWas masks documents by chance: where no field is missing, the decision
// is that on what was there before.
func TestWhatIsComparedIsDecidedAsItWas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, reader := range readers {
		w := workerOf(t, reader)
		compared, missing := 0, 0
		for range 400 {
			before := randomDocument(random)
			after, erased, masked := masks(random, before)
			want := w.entry(t.Context(), entryOf(t, before, nil, nil))
			got := w.entry(t.Context(), entryOf(t, after, erased, masked))
			if len(got.lacks) > 0 {
				missing++
				continue
			}
			compared++
			if got.skipped != "" || got.live.Effect != want.live.Effect || got.live.Failure != want.live.Failure {
				t.Fatalf("%s\n%v\nerased %v, masked %v: %v\nis %s %s (%s), want %s %s", reader, before, erased, masked, after,
					got.live.Effect, got.live.Failure, got.skipped, want.live.Effect, want.live.Failure)
			}
		}
		if compared == 0 || missing == 0 {
			t.Errorf("%s: %d compared, %d with missing fields; want some of both", reader, compared, missing)
		}
	}
}

// workerOf returns a worker of a replay in which both policies have one rule.
func workerOf(t *testing.T, rule string) *worker {
	t.Helper()
	p := &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"auth.rego": "package envoy.authz\n" + rule},
	}
	r := &replay{Options: Options{Live: p, Candidate: p}}
	var err error
	if r.live, err = newSide(t.Context(), Live, p); err != nil {
		t.Fatal(err)
	}
	r.candidate = r.live
	r.items = newExamining(nil)
	return newWorker(r)
}

func entryOf(t *testing.T, document any, erased, masked []string) *logreader.Entry {
	t.Helper()
	encoded := func(v any) logreader.Document {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return &logreader.Entry{Time: time.Unix(1, 0), Input: encoded(document), Erased: encoded(erased), Masked: encoded(masked)}
}

// randomDocument returns a document in which one is everywhere, often.
func randomDocument(random *rand.Rand) map[string]any {
	one := func() any { return []any{1, 1, 2, map[string]any{"x": 1}}[random.IntN(4)] }
	return map[string]any{
		"a": one(), "b": map[string]any{"x": one(), "y": []any{"a", "c", 1}[random.IntN(3)], "s/t": one()},
		"c": []any{one(), one(), map[string]any{"x": one()}}, "d": []any{1, []any{one(), one(), one()}},
	}
}

// masks returns a document without some of its parts and with others replaced, and the pointers to them. It
// takes out one part of an array at most, so that the others are where the pointers lead.
func masks(random *rand.Rand, document map[string]any) (out any, erased, masked []string) {
	pointers := [][]string{{"a"}, {"b"}, {"b", "x"}, {"b", "y"}, {"b", "s~1t"}, {"c"}, {"c", "0"}, {"c", "1"}, {"c", "2", "x"}, {"d", "1", "0"}, {"d", "1", "2"}, {"d", "0"}}
	out = document
	var done [][]string
	for range 1 + random.IntN(2) {
		path := pointers[random.IntN(len(pointers))]
		if slices.ContainsFunc(done, func(other []string) bool { return other[0] == path[0] }) {
			continue
		}
		done = append(done, path)
		text := "/input"
		for _, name := range path {
			text += "/" + name
		}
		if random.IntN(2) == 0 {
			out, erased = changed(out, path, nil), append(erased, text)
		} else {
			out, masked = changed(out, path, []any{1, 2, "***"}[random.IntN(3)]), append(masked, text)
		}
	}
	return out, erased, masked
}

// changed returns a copy of a document with another value at a path, or without it.
func changed(document any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	switch d := document.(type) {
	case map[string]any:
		out := map[string]any{}
		name := unescaper.Replace(path[0])
		for key, v := range d {
			if key == name {
				v = changed(v, path[1:], value)
			}
			if v != nil {
				out[key] = v
			}
		}
		return out
	case []any:
		at, _ := strconv.Atoi(path[0])
		out := slices.Clone(d)
		if out[at] = changed(d[at], path[1:], value); out[at] == nil {
			out = slices.Delete(out, at, at+1)
		}
		return out
	}
	panic(fmt.Sprintf("nothing at %v", path))
}
