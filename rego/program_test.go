package rego_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
)

// decode reads JSON with numbers as json.Number.
func decode(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("JSON %s: %v", text, err)
	}
	return v
}

func input(t testing.TB, text string) rego.Input {
	t.Helper()
	in, err := rego.NewInput(decode(t, text).(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestEval(t *testing.T) {
	for name, tt := range map[string]struct {
		rules, input string
		data         map[string]any
		// want is JSON; empty means undefined.
		want string
	}{
		"true":                  {rules: "x := true", want: "true"},
		"false":                 {rules: "x := false", want: "false"},
		"default":               {rules: "default x := false\nx if input.a == 1", input: `{"a": 2}`, want: "false"},
		"undefined":             {rules: "x if input.a == 1", input: `{"a": 2}`},
		"null":                  {rules: "x := null", want: "null"},
		"input":                 {rules: "x := input.a", input: `{"a": {"b": [1, "é", null]}}`, want: `{"b": [1, "é", null]}`},
		"an empty name":         {rules: `x := input[""]`, input: `{"": 1, "a": 2}`, want: "1"},
		"no empty name":         {rules: `x := input[""]`, input: `{"a": 2}`},
		"an empty name in data": {rules: `x contains n if { some n in data.names; input[n] }`, input: `{"a": 2}`, data: map[string]any{"names": []any{"", "a", "b"}}, want: `["a"]`},
		"a name and a position": {rules: `x if { not input[1]; input["1"] == 2 }`, input: `{"1": 2}`, want: "true"},
		"no input":              {rules: "x := input.a", input: `{}`},
		"large integer":         {rules: "x := input.a + 1", input: `{"a": 9007199254740993}`, want: "9007199254740994"},
		"decimal":               {rules: "x := input.a", input: `{"a": 0.10}`, want: "0.10"},
		"set":                   {rules: "x contains y if some y in [3, 1, 2]", want: "[1, 2, 3]"},
		"object":                {rules: `x := {"allowed": true, "headers": {"a": ["b"]}}`, want: `{"allowed": true, "headers": {"a": ["b"]}}`},
		"data":                  {rules: "x := data.roles[input.user]", input: `{"user": "u"}`, data: map[string]any{"roles": map[string]any{"u": []any{"admin", 1.5}}}, want: `["admin", 1.5]`},
		"rego.v2":               {rules: `import rego.v2` + "\nx if input.a or (input.b and not {input.c; input.d})", input: `{"a": false, "b": true, "c": true, "d": false}`, want: "true"},
		"error of a built-in":   {rules: `x := time.parse_rfc3339_ns("never")`},
		"division by zero":      {rules: `x := 1 / input.zero`, input: `{"zero": 0}`},
		"error, then a default": {rules: "default x := 7\nx := to_number(\"x\")", want: "7"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "package a\n"+tt.rules, tt.data, "a/x")
			if tt.input == "" {
				tt.input = "{}"
			}
			got, err := p.Eval(context.Background(), "a/x", input(t, tt.input), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			want := rego.Result{}
			if tt.want != "" {
				want = rego.Result{Defined: true, Value: decode(t, tt.want)}
			}
			want.Timed = got.Timed // see TestTimed
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvalErrors(t *testing.T) {
	for name, tt := range map[string]struct{ rules, want string }{
		"two values": {
			"x := input.secret if input.a\nx := 2 if input.b",
			"evaluating a/x: policy.rego:3: eval_conflict_error: rule data.a.x produced conflicting values",
		},
		"two values of a function": {
			"x := f(input.secret)\nf(y) := y if input.a\nf(y) := 2 if input.b",
			"evaluating a/x: policy.rego:4: eval_conflict_error: function data.a.f produced conflicting values for the same inputs",
		},
		"two values of a key": {
			"x[k] := v if { some k in [\"k\"]; some v in [input.secret, 2] }",
			"evaluating a/x: policy.rego:2: eval_conflict_error: object keys must be unique",
		},
		"two values of a key in a comprehension": {
			"x := {k: v | some k in [input.secret]; some v in [1, 2]}",
			"evaluating a/x: policy.rego:2: eval_conflict_error: object keys must be unique",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "package a\n"+tt.rules, nil, "a/x")
			_, err := p.Eval(context.Background(), "a/x", input(t, `{"a": true, "b": true, "secret": "s3cr3t"}`), time.Now())
			var failed *rego.EvalError
			if !errors.As(err, &failed) || err.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	p := compile(t, "package a\nx := 1", nil, "a/x")
	if _, err := p.Eval(context.Background(), "a/y", rego.Input{}, time.Now()); err == nil {
		t.Error("a path that is not the program's: no error")
	}
}

func TestEvalWithoutInput(t *testing.T) {
	p := compile(t, "package a\ndefault x := \"none\"\nx := \"some\" if input", nil, "a/x")
	for want, in := range map[string]rego.Input{"none": {}, "some": input(t, `{}`)} {
		if got, err := p.Eval(context.Background(), "a/x", in, time.Now()); err != nil || got.Value != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
	}
}

// TestEvalClock checks that all that reads the clock reads the one given.
func TestEvalClock(t *testing.T) {
	p := compile(t, `package a
now := time.now_ns()
encoded := io.jwt.encode_sign({"typ": "JWT", "alg": "HS256"}, {"exp": 1700000000}, {"kty": "oct", "k": base64url.encode_no_pad("secret")})
valid := io.jwt.decode_verify(encoded, {"secret": "secret"})[0]
`, nil, "a/now", "a/valid")
	for _, tt := range []struct {
		now   time.Time
		valid bool
	}{{time.Unix(1699999999, 5), true}, {time.Unix(1700000001, 0), false}, {time.Unix(0, 0), true}} {
		got, err := p.Eval(context.Background(), "a/now", rego.Input{}, tt.now)
		if want := json.Number(fmt.Sprint(tt.now.UnixNano())); err != nil || got.Value != want {
			t.Errorf("time.now_ns() = %v, %v, want %s", got.Value, err, want)
		}
		got, err = p.Eval(context.Background(), "a/valid", rego.Input{}, tt.now)
		if err != nil || got.Value != tt.valid {
			t.Errorf("at %s: valid = %v, %v, want %v", tt.now, got.Value, err, tt.valid)
		}
	}
}

// endless are rules that would take hours.
var endless = map[string]string{
	"comprehension": "x := count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); some c in numbers.range(1, 3000); a + b + c == 0])",
	"iteration":     "x if { some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); some c in numbers.range(1, 3000); a + b + c == 0 }",
	"range":         "x := count([1 | some a in numbers.range(1, 100000); sum(numbers.range(a, a + 99999)) == 0])",
	"walk":          "x if { walk(input, [p, _]); walk(input, [q, _]); walk(input, [r, _]); array.concat(p, array.concat(q, r)) == [1] }",
}

func TestEvalStopsWithContext(t *testing.T) {
	big := `{"a": [` + strings.Repeat(`{"b": [1, 2, 3]}, `, 2000) + `0]}`
	for name, rule := range endless {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "package a\n"+rule, nil, "a/x")
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			_, err := p.Eval(ctx, "a/x", input(t, big), time.Now())
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Eval: %v, want that the deadline was exceeded", err)
			}
		})
	}
	t.Run("cause", func(t *testing.T) {
		p := compile(t, "package a\n"+endless["iteration"], nil, "a/x")
		shed := errors.New("shed")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(shed)
		_, err := p.Eval(ctx, "a/x", rego.Input{}, time.Now())
		if !errors.Is(err, context.Canceled) || !errors.Is(err, shed) {
			t.Errorf("Eval: %v, want that the context was cancelled, and why", err)
		}
	})
}

func TestEvalIsConcurrent(t *testing.T) {
	p := compile(t, rbacModule, rbacData(), "envoy/authz/allow")
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for j := range 50 {
				role := []string{"reader", "writer"}[(i+j)%2]
				in := input(t, rbacInput(role))
				for range 2 {
					got, err := p.Eval(context.Background(), "envoy/authz/allow", in, time.Unix(1_500_000_000, 0))
					if err != nil || got.Value != (role == "writer") {
						t.Errorf("%s: %v, %v", role, got, err)
					}
				}
			}
		})
	}
	running.Wait()
}

func TestInputRoundTrip(t *testing.T) {
	for _, text := range []string{`{}`, `{"a": [1, 2.50, "x", null, true, {"b": {}}], "": 9007199254740993}`} {
		got, err := input(t, text).Document()
		if diff := cmp.Diff(decode(t, text), got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if got, err := (rego.Input{}).Document(); got != nil || err != nil {
		t.Errorf("no input: %v, %v", got, err)
	}
	if _, err := rego.NewInput(map[string]any{"a": make(chan int)}); err == nil {
		t.Error("a channel in the document: no error")
	}
	if _, err := rego.NewInput(map[string]any{"a": []any{json.Number(strings.Repeat("1", 20_001))}}); err == nil {
		t.Error("a number of 20,001 digits: no error")
	}
	if _, err := rego.NewInput(map[string]any{"a": int64(1), "b": uint32(2), "c": int32(3)}); err != nil {
		t.Errorf("integers: %v", err)
	}
}
