package rego_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"understudy/rego"
)

// TestWhatIsObservedOfATokenEnds observes one token over and over, in an order in which it
// is cached first and does not hold then: the same is written as by a program that has seen
// no token.
func TestWhatIsObservedOfATokenEnds(t *testing.T) {
	const begins, ends = 500_000, 900_000
	token := signedToken(map[string]any{"sub": "y", "nbf": begins, "exp": ends}, "s")
	for name, module := range map[string]string{
		"verified": `allow if { [valid, _, claims] := io.jwt.decode_verify(substring(input.a, 7, -1), {"secret": "s", "alg": "HS256"}); valid; claims.sub == "y" }`,
		"decoded":  `allow if { [_, claims, _] := io.jwt.decode(substring(input.a, 7, -1)); claims.exp > time.now_ns() / 1000000000; claims.nbf <= time.now_ns() / 1000000000 }`,
	} {
		p, err := rego.Compile(context.Background(), rego.Source{
			Modules: map[string]string{"m.rego": "package p\n" + module}, Paths: []string{"p/allow"},
		})
		if err != nil {
			t.Fatal(err)
		}
		reads := p.Reads("p/allow").Child("a")
		warm := reads.Observations()
		if warm == nil {
			t.Fatalf("%s: nothing is observed: %s", name, p.Reads("p/allow"))
		}
		seen := map[string]bool{}
		for _, seconds := range []int64{600_000, 400_000, 600_001, 950_000, 899_999, begins, ends, 100_000, 700_000, ends + 1, begins - 1} {
			at, alone := rego.ValidFrom(t.Context(), time.Unix(seconds, 0)), rego.ValidFrom(t.Context(), time.Unix(seconds, 0))
			got, want := string(warm.Text(nil, "Bearer "+token, &at)), string(reads.Observations().Text(nil, "Bearer "+token, &alone))
			if got != want || at.Until != alone.Until {
				t.Errorf("%s, at %d: got %q until %d, want %q until %d", name, seconds, got, at.Until, want, alone.Until)
			}
			seen[want] = true
		}
		if len(seen) < 2 {
			t.Errorf("%s: the same is observed at all times", name)
		}
	}
}

// TestObservingAllocatesNothing: what is found out about a text, and about a token that was seen
// before, is written for each request.
func TestObservingAllocatesNothing(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": `package p
			allow if { input.path == "/health"; startswith(input.path, "/api/"); endswith(input.path, ".css") }
			allow if { io.jwt.decode(input.token)[1].exp > time.now_ns() / 1000000000 }`},
		Paths: []string{"p/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"path": "/api/v1/orders/1", "token": signedToken(map[string]any{"exp": epoch + 10}, "s")} {
		observed, buffer := p.Reads("p/allow").Child(name).Observations(), make([]byte, 0, 1024)
		if n := testing.AllocsPerRun(100, func() {
			at := rego.ValidFrom(t.Context(), time.Unix(epoch, 0))
			buffer = observed.Text(buffer[:0], text, &at)
		}); n > 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

// TestWhatIsNotFoundOutIsWritten: values that a policy can tell apart are never written alike, though
// they are not of the type that it mostly compares.
func TestWhatIsNotFoundOutIsWritten(t *testing.T) {
	for module, pair := range map[string][2]string{
		`allow if input.a in {"x", 1}`:                          {`{"a": 1}`, `{"a": 2}`},
		`allow if { startswith(input.a, "x"); input.b == 1 }`:   {`{"a": "x", "b": 1}`, `{"a": "x", "b": 2}`},
		`allow if ["x", _] = input.a`:                           {`{"a": ["x", 1]}`, `{"a": ["x", 1, 2]}`},
		"f(x) if x = input.a\nallow if f(1)":                    {`{"a": 1}`, `{"a": 2}`},
		`allow if { x = data.x; x = input.a }`:                  {`{"a": 1}`, `{"a": 2}`},
		`allow if { [x, x] = input.a }`:                         {`{"a": [1, 1]}`, `{"a": [1, 2]}`},
		"f if [_] = input.b\nallow if { [_] = input.a; not f }": {`{"a": [7], "b": "s"}`, `{"a": "s", "b": [7]}`},
	} {
		p, err := rego.Compile(context.Background(), rego.Source{
			Modules: map[string]string{"m.rego": "package p\n" + module}, Data: map[string]any{"x": 1}, Paths: []string{"p/allow"},
		})
		if err != nil {
			t.Fatal(err)
		}
		var written [2]string
		var defined [2]bool
		for i, text := range pair {
			at := rego.ValidFrom(t.Context(), time.Unix(epoch, 0))
			written[i] = string(rego.AppendObserved(nil, p.Reads("p/allow").Observe(), input(t, text), &at))
			result, err := p.Eval(context.Background(), "p/allow", input(t, text), time.Unix(epoch, 0))
			if err != nil {
				t.Fatal(err)
			}
			defined[i] = result.Defined
		}
		if !defined[0] || defined[1] {
			t.Errorf("%s: defined %v, want the first alone", module, defined)
		}
		if written[0] == written[1] {
			t.Errorf("%s: both of %q are written alike", module, pair)
		}
	}
}

// TestLongTextsAreWritten: two that are alike to the policy are written alike as long as it takes little time to
// find that out, however the call with the long text comes about.
func TestLongTextsAreWritten(t *testing.T) {
	for condition, observed := range map[string]bool{
		`regex.match("^x", input.a)`: false, `lower(input.a) == "x"`: false, `split(input.a, "/")[1] == "x"`: false, `substring(input.a, 0, 1) == "x"`: false,
		`startswith(input.a, "x"); regex.match("^x", trim_prefix(input.a, "y"))`: false, `io.jwt.decode(trim_prefix(input.a, "y"))[1].sub == "x"`: false,
		`startswith(input.a, "x"); endswith(input.a, "y"); input.a != "z"`: true, `contains(input.a, "y"); input.a < "y"`: true, `trim_prefix(input.a, "y") == "x"`: true,
	} {
		p, err := rego.Compile(context.Background(), rego.Source{Modules: map[string]string{"m.rego": "package p\nallow if { " + condition + " }"}, Paths: []string{"p/allow"}})
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]bool{}
		for _, text := range []string{"x", "w"} {
			at := rego.ValidFrom(t.Context(), time.Unix(epoch, 0))
			written[string(p.Reads("p/allow").Child("a").Observations().Text(nil, strings.Repeat("x", 20_000)+text, &at))] = true
		}
		if alike := len(written) == 1; alike != observed {
			t.Errorf("%s: two long texts are written alike: %v, want %v", condition, alike, observed)
		}
	}
}

// TestACallThatEndsTheEvaluationIsNotObserved: of a token that is too large nothing is known, and not that it
// has no claims.
func TestACallThatEndsTheEvaluationIsNotObserved(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": "package p\nbanned if io.jwt.decode(input.a)[1].banned\nallow if not banned"}, Paths: []string{"p/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for token, kept := range map[string]bool{"no token": true, signedToken(map[string]any{"x": strings.Repeat("x", 70_000)}, "s"): false} {
		at := rego.ValidFrom(t.Context(), time.Unix(epoch, 0))
		rego.AppendObserved(nil, p.Reads("p/allow").Observe(), input(t, fmt.Sprintf(`{"a": %q}`, token)), &at)
		if got := at.Until > at.Now; got != kept {
			t.Errorf("a token of %d bytes: what is observed may be kept: %v, want %v", len(token), got, kept)
		}
	}
}

// TestMocksOfOneRuleAreThoseOfAll: where built-ins of one path may be replaced, nothing says until when
// a rule at another path that reads the clock has its value.
func TestMocksOfOneRuleAreThoseOfAll(t *testing.T) {
	for _, body := range []string{`io.jwt.decode_verify(input.a, {"secret": "s"})[0]`, `input.a < time.now_ns()`} {
		for other, want := range map[string]bool{`true`: true, `io.jwt.decode(input.a) with io.jwt.decode as 1`: false} {
			p, err := rego.Compile(context.Background(), rego.Source{
				Modules: map[string]string{"m.rego": "package p\nallow if " + body + "\nother if " + other}, Paths: []string{"p/allow", "p/other"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Cacheable("p/allow"); got != want {
				t.Errorf("%s, beside %s: cacheable %v, want %v", body, other, got, want)
			}
		}
	}
}
