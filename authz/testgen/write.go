package testgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/logreader"
	"understudy/authz/replay"
	"understudy/rego"
	"understudy/rego/regotest"
)

// Options say which tests are made.
type Options struct {
	Live, Candidate *adminpb.Policy
	// For is the policy with which the tests pass; with the other one they fail.
	For replay.Side
	// File names the module of the tests.
	File string
}

// Tests are what was made.
type Tests struct {
	// Module is the Rego module, formatted. It is empty if there is no test.
	Module string
	// Count is how many tests it has.
	Count int
	// Left says of each example that has no test why.
	Left []string
}

// test is one rule.
type test struct {
	name, text, about string
	// untyped is the text for policies of which one has a value of another type: OPA's compiler would
	// refuse the text with that.
	untyped string
}

// Make makes tests of examples. The error is that of ctx, or of a policy that does not compile.
func Make(ctx context.Context, o Options, examples []replay.Example) (Tests, error) {
	live, err := authz.Compile(ctx, o.Live)
	if err != nil {
		return Tests{}, err
	}
	candidate, err := authz.Compile(ctx, o.Candidate)
	if err != nil {
		return Tests{}, err
	}
	var out Tests
	var tests []test
	for _, w := range examples {
		t, why := o.one(ctx, &subject{live: live, candidate: candidate, of: w})
		if why != "" {
			out.Left = append(out.Left, labelOf(w)+": "+why)
			continue
		}
		t.about = labelOf(w) + ": " + findings[w.Difference]
		t.name = unused(tests, o.nameOf(w))
		tests = append(tests, t)
	}
	proven, err := o.proven(ctx, slices.Clone(tests), &out)
	if _, refused := errors.AsType[*authz.CompileError](err); refused {
		for i := range tests {
			tests[i].text = tests[i].untyped
		}
		proven, err = o.proven(ctx, tests, &out)
	}
	if tests = proven; err != nil || len(tests) == 0 {
		return out, err
	}
	out.Count = len(tests)
	out.Module, err = rego.Format(o.File, []byte(o.moduleOf(tests)))
	return out, err
}

// findings say what a replay has found of a request.
var findings = map[authz.Difference]string{
	authz.NewlyDenied:     "the live policy allows it, and the candidate denies it",
	authz.NewlyAllowed:    "the live policy denies it, and the candidate allows it",
	authz.ResponseChanged: "the candidate answers it in another way than the live policy",
}

// Group is a group of requests: its route and, if it has one, the ID of a decision on it.
type Group struct{ Method, Path, DecisionID string }

// String names the group.
func (g Group) String() string {
	text := strings.TrimSpace(g.Method + " " + g.Path)
	if g.DecisionID != "" {
		text += " (" + g.DecisionID + ")"
	}
	return text
}

// labelOf names the group of an example.
func labelOf(w replay.Example) string { return Group{w.Method, w.Path, w.DecisionID}.String() }

// one makes the test of an example, or says why there is none.
func (o Options) one(ctx context.Context, s *subject) (test, string) {
	document, err := logreader.Document(s.of.Input).Value()
	if err != nil {
		return test{}, "its input cannot be read"
	}
	if s.document = document; !s.holds(ctx) {
		return test{}, "it cannot be repeated"
	}
	s.minimise(ctx)
	s.anonymise(ctx)
	if where, ok := s.clean(ctx); !ok {
		return test{}, "the difference needs the real input." + where + ", which is a credential"
	}
	if !s.holdsMinted(ctx) {
		return test{}, "it took too many attempts"
	}
	assertion, untyped, ok := o.assertion(s)
	if !ok {
		return test{}, "no single rule shows the difference"
	}
	with := " with input as " + literal(s.document)
	if s.clock {
		with += fmt.Sprintf("\n\t\twith time.now_ns as %d", s.of.Time.UnixNano())
	}
	return test{text: "\t" + assertion + with, untyped: "\t" + untyped + with}, ""
}

// assertion is what the rule that decides the difference has to be, and the same for a rule whose type is
// not known. It is that of the side that denies: the other one allows there.
func (o Options) assertion(s *subject) (typed, untyped string, ok bool) {
	path := s.candidateMade.RulePath()
	if s.liveMade.Effect == authz.Deny && s.candidateMade.Effect == authz.Allow {
		path = s.liveMade.RulePath()
	}
	if path == "" {
		return "", "", false
	}
	of := s.candidateMade
	if o.For == replay.Live {
		of = s.liveMade
	}
	ref := "data." + strings.ReplaceAll(path, "/", ".")
	value, err := json.Marshal(of.Value)
	if err != nil || len(value) > maxValue {
		return "", "", false
	}
	untyped = "json.unmarshal(json.marshal(" + ref + ")) == " + string(value)
	if of.Value == nil {
		untyped = "not json.marshal(" + ref + ")"
	}
	switch {
	case s.of.Difference == authz.ResponseChanged:
		return ref + " == " + string(value), untyped, true
	case of.Effect == authz.Deny:
		return "not " + granted(ref, s), untyped, true
	}
	return granted(ref, s), untyped, true
}

// maxValue bounds a value that a test compares with, in bytes.
const maxValue = 4096

// granted is the expression that is true if a rule allows: a boolean, or the field of an object.
func granted(ref string, s *subject) string {
	for _, made := range []authz.Decision{s.candidateMade, s.liveMade} {
		if _, ok := made.Value.(map[string]any); ok {
			return ref + ".allowed"
		}
	}
	return ref
}

// literal writes a document as Rego, with the tokens as calls that make them.
func literal(value any) string {
	switch v := value.(type) {
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, quoted(name)+": "+literal(v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, element := range v {
			parts = append(parts, literal(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *token:
		text := "token(" + literal(v.claims) + ")"
		if v.prefix != "" {
			text = `concat("", [` + quoted(v.prefix) + ", " + text + "])"
		}
		return text
	}
	return quoted(value)
}

// quoted writes a value as JSON.
func quoted(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return strings.TrimSpace(out.String())
}

// proven returns the tests that do what they are for: pass with one policy, and fail with the
// other.
func (o Options) proven(ctx context.Context, tests []test, out *Tests) ([]test, error) {
	for _, run := range []struct {
		policy *adminpb.Policy
		want   regotest.Outcome
	}{{o.Candidate, o.outcome(replay.Candidate)}, {o.Live, o.outcome(replay.Live)}} {
		if len(tests) == 0 {
			return nil, nil
		}
		with := proto.CloneOf(run.policy)
		if with.Modules == nil {
			with.Modules = make(map[string]string)
		}
		with.Modules[moduleName] = o.moduleOf(tests)
		report, err := authz.RunTests(ctx, with, regotest.Options{})
		if err != nil {
			return nil, err
		}
		outcomes := make(map[string]regotest.Outcome)
		for _, t := range report.Tests {
			if t.File == moduleName {
				outcomes[t.Name[strings.LastIndexByte(t.Name, '.')+1:]] = t.Outcome
			}
		}
		tests = slices.DeleteFunc(tests, func(t test) bool {
			if outcomes[t.name] == run.want {
				return false
			}
			out.Left = append(out.Left, t.about+": its test passes with both policies")
			return true
		})
	}
	return tests, nil
}

// outcome is how the tests have to end with a policy.
func (o Options) outcome(side replay.Side) regotest.Outcome {
	if (o.For == replay.Live) == (side == replay.Live) {
		return regotest.Passed
	}
	return regotest.Failed
}

// moduleName is that of the module while it is proven.
const moduleName = "understudy_replay_test.rego"

// moduleOf is the text of a module.
func (o Options) moduleOf(tests []test) string {
	var out strings.Builder
	out.WriteString("# Requests on which a change of the policy makes a difference, as `understudy replay --tests`\n# found them in recorded traffic: minimised, and without credentials.\n")
	fmt.Fprintf(&out, "# They state what %s answers.\npackage understudy.replay_test\n\n", called(o.For))
	for _, t := range tests {
		fmt.Fprintf(&out, "# %s\n%s if {\n%s\n}\n\n", strings.ReplaceAll(t.about, "\n", " "), t.name, t.text)
	}
	if strings.Contains(out.String(), "token({") {
		fmt.Fprintf(&out, "# token returns an unsigned token with claims.\ntoken(claims) := concat(\".\", [\n\tbase64url.encode_no_pad(%s),\n\tbase64url.encode_no_pad(json.marshal(claims)),\n\t%q,\n])\n",
			quoted(tokenHeader), tokenSignature)
	}
	return out.String()
}

// called names a side in a sentence.
func called(side replay.Side) string {
	if side == replay.Live {
		return "the live policy"
	}
	return "the " + string(side)
}

// nameOf is the name of an example's test, which says what it states: test_allowed_get_users.
func (o Options) nameOf(w replay.Example) string {
	of := w.Candidate
	if o.For == replay.Live {
		of = w.Live
	}
	states := "allowed"
	switch {
	case w.Difference == authz.ResponseChanged:
		states = "answer"
	case of.Effect == authz.Deny:
		states = "denied"
	}
	text := strings.ToLower(states + "_" + w.Method + "_" + w.Path)
	var out strings.Builder
	for _, c := range text {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			out.WriteRune(c)
		} else if s := out.String(); s != "" && s[len(s)-1] != '_' {
			out.WriteByte('_')
		}
	}
	name := strings.Trim(out.String(), "_")
	return "test_" + name[:min(len(name), 80)]
}

// unused returns a name that no test has.
func unused(tests []test, name string) string {
	candidate := name
	for n := 2; slices.ContainsFunc(tests, func(t test) bool { return t.name == candidate }); n++ {
		candidate = fmt.Sprintf("%s_%d", name, n)
	}
	return candidate
}
