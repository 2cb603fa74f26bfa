package rego_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/cmd/testkit"
	"understudy/rego"
	"understudy/rego/evaluator"
)

// compileRandom compiles a random module; nil if it does not compile.
func compileRandom(t *testing.T, seed uint64) *rego.Program {
	t.Helper()
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": randomModule(seed)},
		Data: map[string]any{"d": map[string]any{"one": 1, "two": "x", "map": map[string]any{"x": 2, "y": "y"},
			"words": []any{"x", "/x", 3, "y"}, "secret": "s", "rules": []any{map[string]any{"prefix": "/x/y"}, map[string]any{"prefix": "/"}}}},
		Paths: []string{"p/allow"},
	})
	if err != nil {
		return nil // unsafe variables and the like
	}
	return p
}

// recordHolds holds an evaluation of an input at a moment against OPA, and its record against all others of
// the program. It reports whether there is a record.
func recordHolds(p *rego.Program, document map[string]any, now time.Time) (recorded bool, err error) {
	in, err := rego.NewInput(document)
	if err != nil {
		return false, err
	}
	want, failed := p.Interpret(context.Background(), "p/allow", in, now)
	got, unsupported, err := rego.EvalCompiled(p, "p/allow", in, now)
	switch {
	case unsupported != nil, errors.Is(err, evaluator.ErrUndecided):
		return false, nil
	case err != nil, failed != nil:
		return false, fmt.Errorf("ours: %w, OPA: %w", err, failed)
	case !same(got, want):
		return false, fmt.Errorf("ours says %v, OPA %v", got, want)
	}
	return true, nil
}

func same(a, b rego.Result) bool { return a.Defined == b.Defined && cmp.Equal(a.Value, b.Value) }

// randomHolds holds a random policy to inputs and moments, of which many are nearly equal. It returns
// how many had a record.
func randomHolds(p *rego.Program, r *rand.Rand, inputs int) (recorded int, err error) {
	defer rego.Forget(p)
	document := randomInput(r)
	for range inputs {
		other := randomInput(r)
		document = maps.Clone(document)
		for _, name := range []string{"a", "l", "o", "t", "token", "s", "p"}[r.IntN(7):][:1] {
			document[name] = other[name]
		}
		if r.IntN(4) == 0 {
			document = other
		}
		now := time.Unix(epoch, r.Int64N(20e9))
		ok, err := recordHolds(p, document, now)
		if err != nil {
			return recorded, fmt.Errorf("%w\nat %d, input %v", err, now.UnixNano(), document)
		}
		if ok {
			recorded++
		}
	}
	return recorded, nil
}

// TestRecordsAreSound is the proof by example of what cached decisions rest on, for random policies, inputs
// and moments: ours says what OPA says, and what follows after some answers is always the same.
func TestRecordsAreSound(t *testing.T) {
	const inputs = 24
	compiled, recorded, policies := 0, 0, testkit.Cases(1500)
	for seed := range uint64(policies) {
		p := compileRandom(t, seed)
		if p == nil {
			continue
		}
		compiled++
		n, err := randomHolds(p, rand.New(rand.NewPCG(seed, 6)), inputs)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, randomModule(seed))
		}
		recorded += n
	}
	t.Logf("%d policies, %d evaluations with a record", compiled, recorded)
	if compiled < policies*7/15 || recorded < compiled*inputs/2 {
		t.Errorf("the random policies show too little: %d compiled, %d evaluations with a record", compiled, recorded)
	}
}

// FuzzRecords looks for a policy for which they are not.
func FuzzRecords(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, policy, input uint64) {
		p := compileRandom(t, policy)
		if p == nil {
			return
		}
		if _, err := randomHolds(p, rand.New(rand.NewPCG(input, 6)), 24); err != nil {
			t.Fatalf("%v\n%s", err, randomModule(policy))
		}
	})
}

// TestTimed shows which values may be others at another time: those for which the clock was looked at.
func TestTimed(t *testing.T) {
	for name, tt := range map[string]struct {
		module string
		want   bool
	}{
		"no clock":              {`allow if input.exp == 1`, false},
		"an expiry":             {`allow if input.exp > time.now_ns() / 1000000000`, true},
		"by a rule of a rule":   {"ns := time.now_ns()\nnow := ns / 1000000000\nallow if input.exp > now", true},
		"in a function":         {"valid(x) if x > time.now_ns() / 1000000000\nallow if valid(input.exp)", true},
		"not evaluated":         {`allow if { input.exp == 1; input.exp > time.now_ns() }`, false},
		"as a value":            {`allow := time.now_ns()`, true},
		"in a comprehension":    {`allow if count({x | x := time.now_ns()}) == 1`, true},
		"a rule, not asked for": {"now := time.now_ns()\nallow if count(data.q) == 1\n", false},
		"replaced, for OPA":     {`allow if time.now_ns() > 3 with time.now_ns as 5`, true},
		"random, for OPA":       {`allow if rand.intn("x", 5) == 1`, false},
		"a token that is read":  {`allow if io.jwt.decode(input.token)[1].exp == 1`, false},
		"a verified token":      {`allow if io.jwt.decode_verify(input.token, {"secret": "s"})[0]`, true},
		"a signature":           {`allow if io.jwt.verify_hs256(input.token, "s")`, false},
		"the second evaluation": {"late if input.exp > time.now_ns() / 1e9\nallow if { late; late }", true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(context.Background(), rego.Source{
				Modules: map[string]string{"m.rego": "package p\n" + tt.module, "q.rego": "package q\nx := 1"},
				Paths:   []string{"p/allow"},
			})
			if err != nil {
				t.Fatal(err)
			}
			token := signedToken(map[string]any{"exp": epoch + 10}, "s")
			for range 2 { // the second one has what is known of the program
				got, err := p.Eval(context.Background(), "p/allow", input(t, fmt.Sprintf(`{"exp": %d, "token": %q}`, epoch+10, token)), time.Unix(epoch, 0))
				if err != nil || got.Timed != tt.want {
					t.Errorf("timed %v (%v), want %v", got.Timed, err, tt.want)
				}
			}
		})
	}
}

// TestTheRowOfATableIsOneQuestion: to look for a row of the data by a value of the request takes one question about that
// value, whichever way it is written, and not one for each row.
func TestTheRowOfATableIsOneQuestion(t *testing.T) {
	var list []any
	users := make(map[string]any)
	for i := range 300 {
		name := fmt.Sprint("u", i)
		list = append(list, map[string]any{"user": name, "level": i})
		users[name] = map[string]any{"level": i, "group": fmt.Sprint("g", i)}
	}
	for _, body := range []string{
		`some e in data.list; e.user == input.user; e.level > 3`,
		`some e in data.list; input.user == e.user; e.level > 3`,
		`some e in data.list; u := input.user; e.user == u; e.level > 3`,
		`some i; data.list[i].user == input.user; data.list[i].level > 3`,
		`some u, x in data.users; u == input.user; x.level > 3`,
		`some u, x in data.users; input.user == u; x.level > 3`,
		`some u; data.users[u].level > 3; u == input.user`,
	} {
		p := compile(t, "package a\n\nx if { "+body+" }", map[string]any{"list": list, "users": users}, "a/x")
		a := p.Ask(t.Context(), rego.RequestOf(input(t, `{"user": "u200"}`)), time.Now(), true)
		got, err := a.Eval("a/x")
		if err != nil || got.Value != true {
			t.Errorf("%s: %v, %v", body, got, err)
		}
		if n := len(a.Record().Entries); n > 3 {
			t.Errorf("%s asks %d questions", body, n)
		}
		a.End()
	}
}

// TestCallsAreAskedAbout: of a value that is an operand of a call only that is learned what the policy finds out about the
// result, so that requests which differ in the rest are one.
func TestCallsAreAskedAbout(t *testing.T) {
	for condition, inputs := range map[string][3]string{ // of which the first two are alike
		`strings.any_prefix_match(input.x, ["/a/", "/b/"])`:       {"/a/1", "/b/2", "/c/3"},
		`strings.any_suffix_match(input.x, [".js", ".css"])`:      {"1.js", "2.css", "3.html"},
		`strings.count(input.x, "/") == 2`:                        {"/a/b", "/c/d", "/e"},
		`strings.reverse(input.x) == "cba"`:                       {"x", "y", "abc"},
		`indexof_n(input.x, "/") == [0]`:                          {"/a", "/b", "/c/d"},
		`strings.split_n(input.x, "/", 2)[1] == "a"`:              {"1/a", "2/a", "3/b"},
		`regex.find_n("^/v[0-9]+", input.x, 1)[0] == "/v1"`:       {"/v1/a", "/v1/b", "/v2/a"},
		`regex.split("/", input.x)[1] == "a"`:                     {"/a/1", "/a/2", "/b/1"},
		`uri.parse(input.x).path == "/a"`:                         {"http://b/a", "http://c/a", "http://b/b"},
		`semver.compare(input.x, "2.0.0") >= 0`:                   {"2.1.0", "2.1.1", "1.0.0"},
		`units.parse_bytes(input.x) > 1024`:                       {"2K", "3K", "1"},
		`time.format(to_number(input.x)) < "2001"`:                {"1", "2", "1700000000000000000"},
		`time.add_date(to_number(input.x), 0, 0, 1) > 1e18`:       {"1", "2", "1700000000000000000"},
		`regex.template_match("/{v[0-9]+}/a", input.x, "{", "}")`: {"/b", "/c", "/v1/a"},
		`base64.encode(input.x) == "YQ=="`:                        {"b", "c", "a"},
		`net.cidr_is_valid(input.x)`:                              {"10.0.0.0/8", "10.0.0.0/9", "x"},
	} {
		p := compile(t, "package a\n\nx if "+condition, nil, "a/x")
		var answers [3]string
		for i, value := range inputs {
			in := input(t, fmt.Sprintf(`{"x": %q}`, value))
			a := p.Ask(t.Context(), rego.RequestOf(in), time.Now(), true)
			got, err := a.Eval("a/x")
			want, errOPA := p.Interpret(t.Context(), "a/x", in, time.Now())
			if err != nil || errOPA != nil || got.Value != want.Value {
				t.Errorf("%s of %s: %v, %v; OPA: %v, %v", condition, value, got, err, want, errOPA)
			}
			for _, entry := range a.Record().Entries {
				answers[i] += fmt.Sprint(entry.Answer)
			}
			a.End()
		}
		if answers[0] != answers[1] || answers[0] == answers[2] {
			t.Errorf("%s: requests with %q are asked and answer %q", condition, inputs, answers)
		}
	}
}
