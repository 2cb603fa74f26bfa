package rego_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
	"understudy/rego/evaluator"
)

// epoch is the second about which the random inputs are.
const epoch = 1_700_000_000

// randomInput is an input of the random modules.
func randomInput(r *rand.Rand) map[string]any {
	number := func() any { return []any{r.IntN(4), "x", "y", true, 1.5, epoch + r.IntN(10)}[r.IntN(6)] }
	out := map[string]any{
		"a": map[string]any{"b": number(), "c": []string{"x", "y"}[r.IntN(2)]},
		"l": []any{number(), number(), map[string]any{"b": number()}},
		"o": map[string]any{"a": map[string]any{"b": number()}, "b": number()},
		"t": epoch + r.IntN(20), "token": token(r), "noise": r.Uint64(), "s": text(r), "p": texts(r),
	}
	out["bearer"] = "B " + out["token"].(string)
	for _, name := range []string{"a", "l", "o", "t", "token", "s", "p"} {
		if r.IntN(8) == 0 {
			delete(out, name)
		}
	}
	for _, name := range []string{"a", "o"} {
		object, ok := out[name].(map[string]any)
		switch {
		case ok && r.IntN(4) == 0:
			delete(object, "b")
		case ok && r.IntN(4) == 0:
			clear(object)
		}
	}
	return out
}

// text returns a text, or now and then something else.
func text(r *rand.Rand) any {
	return []any{"/x/" + fmt.Sprint(r.IntN(99)), "/x", "/X/y", "/x/y/" + fmt.Sprint(r.IntN(99)), "x", "y/x", "", "/z", 3, []any{"x"}, "x/y"}[r.IntN(11)]
}

// texts returns a list of texts, or now and then something else.
func texts(r *rand.Rand) any {
	out := []any{"x", fmt.Sprint("y", r.IntN(9)), "y", text(r), []any{text(r), "y"}}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	if r.IntN(8) == 0 {
		return "ab"
	}
	return out[:1+r.IntN(5)]
}

// token returns a token of the secret s that is or will be valid, or not.
func token(r *rand.Rand) string {
	claims := map[string]any{}
	if r.IntN(3) > 0 {
		claims["exp"] = epoch + r.IntN(20)
	}
	if r.IntN(3) == 0 {
		claims["nbf"] = float64(epoch) + 10*r.Float64()
	}
	if r.IntN(3) > 0 {
		claims["sub"] = text(r)
	}
	return signedToken(claims, []string{"s", "other"}[r.IntN(2)])
}

// signedToken returns a token of HS256.
func signedToken(claims map[string]any, secret string) string {
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return sign(`{"alg":"HS256","typ":"JWT"}`, string(text), secret)
}

// sign returns a token of HS256 with a header and a payload.
func sign(header, payload, secret string) string {
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(header)) + "." + part([]byte(payload))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + part(mac.Sum(nil))
}

// project returns what of a document a read set names, and no more: an object of which
// nothing is read is left out unless it matters that it is there, and what only has to
// be there is something else.
func project(document any, set *rego.Reads) any {
	if set.Whole() {
		return document
	}
	if array, ok := document.([]any); ok && len(set.Names()) > 0 {
		return projectArray(array, set)
	}
	object, ok := document.(map[string]any)
	if !ok {
		return "something else"
	}
	out := map[string]any{}
	for _, name := range set.Names() {
		child := set.Child(name)
		value, ok := object[name]
		if !ok {
			continue
		}
		projected := project(value, child)
		if inner, isObject := projected.(map[string]any); child.Whole() || child.Exists() || !isObject || len(inner) > 0 {
			out[name] = projected
		}
	}
	return out
}

// projectArray keeps the elements that are read; those before them become something
// else, and what is after them is left out.
func projectArray(array []any, set *rego.Reads) any {
	out := []any{}
	for i, element := range array {
		if child := set.Child(rego.IndexName(i)); child != nil {
			for len(out) < i {
				out = append(out, "something else")
			}
			out = append(out, project(element, child))
		}
	}
	return out
}

// trial is one random module with what the test has seen of it.
type trial struct {
	program   *rego.Program
	bounded   int
	cacheable bool
}

func compileRandom(t *testing.T, seed uint64) *trial {
	t.Helper()
	text := randomModule(seed)
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": text},
		Data: map[string]any{"d": map[string]any{"one": 1, "two": "x", "map": map[string]any{"x": 2, "y": "y"},
			"words": []any{"x", "/x", 3, "y"}, "secret": "s", "rules": []any{map[string]any{"prefix": "/x/y"}, map[string]any{"prefix": "/"}}}},
		Paths: []string{"p/allow"},
	})
	if err != nil {
		return nil // unsafe variables and the like
	}
	return &trial{program: p, cacheable: p.Cacheable("p/allow")}
}

func (tr *trial) eval(t *testing.T, document any, now time.Time) rego.Result {
	t.Helper()
	in, err := rego.NewInput(document.(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	result, err := tr.program.Eval(context.Background(), "p/allow", in, now)
	tr.holdsRecord(t, in, now, result, err)
	if err != nil {
		return rego.Result{Value: "conflict"}
	}
	return result
}

// holds checks one input at one moment: the value is that of the projected input, and
// it stays until the moment that the evaluation names.
func (tr *trial) holds(t *testing.T, r *rand.Rand) error {
	t.Helper()
	document, now := randomInput(r), time.Unix(epoch, r.Int64N(20e9))
	whole := tr.eval(t, document, now)
	reads := tr.program.Reads("p/allow")
	if got := tr.eval(t, project(document, reads), now); !same(whole, got) {
		return fmt.Errorf("projected to %s: %v, whole: %v\ninput %v", reads, got, whole, document)
	}
	if !tr.cacheable || !whole.ValidUntil.After(now) {
		return nil
	}
	last := whole.ValidUntil.Add(-1)
	if whole.ValidUntil.Before(rego.Forever) {
		tr.bounded++
	} else {
		last = now.Add(100 * time.Second)
	}
	for _, later := range []time.Time{last, now.Add(rand.N(last.Sub(now) + 1)), now.Add(1)} {
		if got := tr.eval(t, document, later); later.Before(whole.ValidUntil) && !same(whole, got) {
			return fmt.Errorf("at %v: %v until %v; at %v: %v\ninput %v",
				now.UnixNano(), whole.Value, whole.ValidUntil.UnixNano(), later.UnixNano(), got.Value, document)
		}
	}
	return nil
}

// observedCase is a request as a cache would see it.
type observedCase struct {
	document any
	now      time.Time
	key      string
	result   rego.Result
}

// holdsObserved checks inputs at moments against each other: where one would be found under
// the key of another, at a moment at which that is valid, it has the other's value. It returns
// how many pairs of different inputs were found so.
func (tr *trial) holdsObserved(t *testing.T, r *rand.Rand) (pairs int, err error) {
	t.Helper()
	observed := tr.program.Reads("p/allow").Observe()
	var cases []observedCase
	for range 40 {
		c := observedCase{document: randomInput(r), now: time.Unix(epoch, r.Int64N(20e9))}
		if len(cases) > 0 && r.IntN(2) == 0 {
			// The same but for one field, so that many are nearly equal.
			like := maps.Clone(cases[r.IntN(len(cases))].document.(map[string]any))
			for _, name := range []string{"a", "l", "o", "t", "token", "s", "p"}[r.IntN(7):][:1] {
				like[name] = c.document.(map[string]any)[name]
			}
			c.document = like
		}
		in, err := rego.NewInput(c.document.(map[string]any))
		if err != nil {
			t.Fatal(err)
		}
		at := rego.ValidFrom(t.Context(), c.now)
		c.key = string(rego.AppendObserved(nil, observed, in, &at))
		c.result = tr.eval(t, c.document, c.now)
		if at.Until > at.Now {
			cases = append(cases, c)
		}
	}
	for _, a := range cases {
		for _, b := range cases {
			if a.key != b.key || b.now.Before(a.now) || !b.now.Before(a.result.ValidUntil) {
				continue
			}
			if !same(a.result, b.result) {
				return 0, fmt.Errorf("observed alike by %s: %v at %d of %v\nand %v at %d of %v", tr.program.Reads("p/allow"),
					a.result, a.now.UnixNano(), a.document, b.result, b.now.UnixNano(), b.document)
			}
			if !cmp.Equal(project(a.document, tr.program.Reads("p/allow")), project(b.document, tr.program.Reads("p/allow"))) {
				pairs++
			}
		}
	}
	return pairs, nil
}

// holdsRecord holds the record of an evaluation against all others of the policy, and its value against
// that without one.
func (tr *trial) holdsRecord(t testing.TB, in rego.Input, now time.Time, want rego.Result, failed error) {
	t.Helper()
	got, unsupported, err := rego.EvalCompiled(tr.program, "p/allow", in, now)
	switch {
	case unsupported != nil, errors.Is(err, evaluator.ErrUndecided):
	case (err == nil) != (failed == nil), err == nil && !same(got, want):
		t.Fatalf("recorded, the value is %v (%v), and else %v (%v)", got, err, want, failed)
	}
}

// TestObservationsAreSound is the same for what is observed: inputs of one key have one value.
func TestObservationsAreSound(t *testing.T) {
	policies, pairs := 1500, 0
	if testing.Short() {
		policies = 100
	}
	for seed := range uint64(policies) {
		tr := compileRandom(t, seed)
		if tr == nil || !tr.cacheable {
			continue
		}
		n, err := tr.holdsObserved(t, rand.New(rand.NewPCG(seed, 8)))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, randomModule(seed))
		}
		pairs += n
	}
	t.Logf("%d pairs of different inputs that are observed alike", pairs)
	if pairs < 2*policies {
		t.Errorf("only %d pairs of different inputs are observed alike", pairs)
	}
}

func same(a, b rego.Result) bool { return a.Defined == b.Defined && cmp.Equal(a.Value, b.Value) }

// TestShortcutsAreSound is the proof by example of what cached decisions rest on:
// for random policies, inputs and moments, a value depends on nothing but what the
// read set names, and it does not change before the evaluation says that it may.
func TestShortcutsAreSound(t *testing.T) {
	compiled, cacheable, bounded := 0, 0, 0
	policies := 1500
	if testing.Short() {
		policies = 150
	}
	for seed := range uint64(policies) {
		tr := compileRandom(t, seed)
		if tr == nil {
			continue
		}
		compiled++
		r := rand.New(rand.NewPCG(seed, 6))
		for range 16 {
			if err := tr.holds(t, r); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, randomModule(seed))
			}
		}
		if tr.cacheable {
			cacheable++
		}
		bounded += tr.bounded
	}
	t.Logf("%d policies, %d cacheable, %d values with a bound", compiled, cacheable, bounded)
	if compiled < policies*7/15 || cacheable < policies*2/15 || bounded < policies/3 {
		t.Errorf("the random policies show too little: %d compiled, %d cacheable, %d bounded", compiled, cacheable, bounded)
	}
}

// FuzzShortcuts looks for a policy for which they are not.
func FuzzShortcuts(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, policy, input uint64) {
		tr := compileRandom(t, policy)
		if tr == nil {
			return
		}
		if err := tr.holds(t, rand.New(rand.NewPCG(input, 6))); err != nil {
			t.Fatalf("%v\n%s", err, randomModule(policy))
		}
		if !tr.cacheable {
			return
		}
		if _, err := tr.holdsObserved(t, rand.New(rand.NewPCG(input, 8))); err != nil {
			t.Fatalf("%v\n%s", err, randomModule(policy))
		}
	})
}

// TestValidity shows how long a value is right, in seconds after the moment of the
// evaluation, which is 1,700,000,000; 0 if it is not known, -1 if forever.
func TestValidity(t *testing.T) {
	for name, tt := range map[string]struct {
		module string
		want   float64
	}{
		"no clock":                      {`allow if input.exp == 1`, -1},
		"an expiry ahead":               {`allow if input.exp > time.now_ns() / 1000000000`, 9.999},
		"an expiry that is past":        {`allow if input.exp - 100 > time.now_ns() / 1000000000`, -1},
		"an expiry now":                 {`allow if input.exp - 10 > time.now_ns() / 1000000000`, 0},
		"the other way round":           {`allow if time.now_ns() / 1000000000 < input.exp`, 9.999},
		"in nanoseconds":                {`allow if time.now_ns() < input.exp * 1000000000`, 9.999},
		"with leeway":                   {`allow if input.exp + 5 > time.now_ns() / 1000000000 - 5`, 19.999},
		"by a rule":                     {"now := time.now_ns() / 1000000000\nallow if input.exp > now", 9.999},
		"by a rule of a rule":           {"ns := time.now_ns()\nnow := ns / 1000000000\nallow if input.exp > now", 9.999},
		"in a function":                 {"valid(x) if x > time.now_ns() / 1000000000\nallow if valid(input.exp)", 9.999},
		"not evaluated":                 {`allow if { input.exp == 1; input.exp > time.now_ns() }`, -1},
		"the earlier of two":            {`allow if { input.exp > time.now_ns() / 1e9; input.exp - 3 > time.now_ns() / 1e9 }`, 6.999},
		"a text":                        {`allow if "x" > time.now_ns()`, -1},
		"as a value":                    {`allow := time.now_ns()`, 0},
		"as an operand":                 {`allow if round(time.now_ns() / 1e9) < input.exp`, 0},
		"as an argument":                {"f(x) if x < input.exp\nallow if f(time.now_ns() / 1e9)", 0},
		"in a comprehension's value":    {`allow if count({x | x := time.now_ns()}) == 1`, 0},
		"two clocks":                    {`allow if time.now_ns() > time.now_ns() - 1`, 0},
		"a rule of the clock, by name":  {"now := time.now_ns()\nallow if count(data.q) == 1\n", -1},
		"a rule of the clock, as value": {"now := time.now_ns()\nallow := now", 0},
		"replaced":                      {`allow if time.now_ns() > 3 with time.now_ns as 5`, 0},
		"rand":                          {`allow if rand.intn("x", 5) == 1`, 0},
		"verified token":                {`allow if io.jwt.decode_verify(input.token, {"secret": "s"})[0]`, 9.999},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(context.Background(), rego.Source{
				Modules: map[string]string{"m.rego": "package p\n" + tt.module, "q.rego": "package q\nx := 1"},
				Paths:   []string{"p/allow"},
			})
			if err != nil {
				t.Fatal(err)
			}
			now := time.Unix(epoch, 0)
			got, err := p.Eval(context.Background(), "p/allow", input(t, inputWithToken()), now)
			if err != nil {
				t.Fatal(err)
			}
			seconds := -1.0
			if got.ValidUntil.Before(rego.Forever) {
				seconds = got.ValidUntil.Sub(now).Round(time.Millisecond).Seconds()
			}
			if seconds != tt.want {
				t.Errorf("%v seconds, want %v", seconds, tt.want)
			}
		})
	}
}

// TestValidityOfExtremes compares the clock with numbers that no clock reaches, or that
// only a large one can hold: a value may not change before the moment that is named.
func TestValidityOfExtremes(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": "package p\ndefault allow := false\nallow if time.now_ns() < input.t"},
		Paths:   []string{"p/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		number string
		// known says that the moment of the change is known.
		known bool
	}{
		{"0", true}, {"-1", true}, {"-9223372036854775808", true}, {"-1e300", true}, {"1e300", true}, {"9223372036854775806", true},
		{"9223372036854775807", true}, {"9223372036854775808", true}, {"9223372036854774784", true}, {"1e400", false},
		{"1700000000000000000", false}, {"1700000000000000001", false}, {"1699999999999000001", false}, {"1700000000002000001", true},
	} {
		in, now := input(t, `{"t": `+tt.number+`}`), time.Unix(epoch, 0)
		ask := func(at time.Time) rego.Result {
			got, err := p.Eval(context.Background(), "p/allow", in, at)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		got := ask(now)
		if known := got.ValidUntil.After(now); known != tt.known {
			t.Errorf("%s: until %v; want it known: %v", tt.number, got.ValidUntil, tt.known)
		}
		if last := got.ValidUntil.Add(-1); tt.known && ask(last).Value != got.Value {
			t.Errorf("%s: %v until %v, but not at %v", tt.number, got.Value, got.ValidUntil, last)
		}
	}
}

// inputWithToken has a token that ends 10 s after the epoch.
func inputWithToken() string {
	for seed := uint64(0); ; seed++ {
		text := token(rand.New(rand.NewPCG(seed, 7)))
		payload, err := base64.RawURLEncoding.DecodeString(text[len(`eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.`) : len(text)-44])
		claims := map[string]any{}
		if err == nil && json.Unmarshal(payload, &claims) == nil && len(claims) == 1 && claims["exp"] == float64(epoch+10) {
			return fmt.Sprintf(`{"exp": %d, "token": %q}`, epoch+10, text)
		}
	}
}
