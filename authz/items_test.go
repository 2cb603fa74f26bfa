package authz_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
	"understudy/rego/change"
)

// TestItems compares two policies and has requests show what they do. Each file of testdata/items has both
// policies, inputs, one a line with the hour of the request before it, and what is to be reported: each item
// with how many of the inputs have shown it, and how many found a condition not true.
func TestItems(t *testing.T) {
	files, err := filepath.Glob("testdata/items/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := readItemCase(t, archive)
			if diff := cmp.Diff(c.want, strings.Join(c.report(t), "\n")); diff != "" {
				t.Errorf("%s: another report than is wanted (-want +got):\n%s", strings.TrimSpace(string(archive.Comment)), diff)
			}
		})
	}
}

// itemCase is one file.
type itemCase struct {
	live, candidate *adminpb.Policy
	inputs          []string
	want            string
}

func readItemCase(t *testing.T, archive *txtar.Archive) itemCase {
	t.Helper()
	c := itemCase{live: &adminpb.Policy{Modules: map[string]string{}}, candidate: &adminpb.Policy{Modules: map[string]string{}}}
	for _, f := range archive.Files {
		of, name, _ := strings.Cut(f.Name, "/")
		var sides []*adminpb.Policy
		switch of {
		case "live":
			sides = append(sides, c.live)
		case "candidate":
			sides = append(sides, c.candidate)
		case "both":
			sides = append(sides, c.live, c.candidate)
		}
		switch f.Name {
		case "inputs":
			c.inputs = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		case "report":
			c.want = strings.TrimSpace(string(f.Data))
		}
		for _, side := range sides {
			switch name {
			case "data.json":
				side.Data = &structpb.Struct{}
				if err := protojson.Unmarshal(f.Data, side.Data); err != nil {
					t.Fatal(err)
				}
			case "policy.json":
				rest := &adminpb.Policy{}
				if err := protojson.Unmarshal(f.Data, rest); err != nil {
					t.Fatal(err)
				}
				proto.Merge(side, rest)
			default:
				side.Modules[name] = string(f.Data)
			}
		}
	}
	for _, side := range []*adminpb.Policy{c.live, c.candidate} {
		if len(side.Rules) == 0 {
			side.Rules = []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}}
		}
	}
	return c
}

// report has every input examined.
func (c itemCase) report(t *testing.T) (out []string) {
	t.Helper()
	judge := judgeOf(t, c.live, c.candidate)
	shown, untrue := make(map[int]int), make(map[int]int)
	for _, line := range c.inputs {
		found, err := judge.Examine(t.Context(), nil, itemRequest(t, line), nil)
		if err != nil {
			t.Fatal(err)
		}
		for item, what := range found {
			if what&change.True != 0 {
				shown[item]++
			}
			if what&change.False != 0 {
				untrue[item]++
			}
		}
	}
	for i, item := range judge.List.Items {
		out = append(out, itemLine(item, shown[i], untrue[i]))
	}
	if judge.List.More > 0 {
		out = append(out, fmt.Sprintf("and %d more", judge.List.More))
	}
	return out
}

func itemLine(item change.Item, shown, untrue int) string {
	kind := []string{"", "rule", "condition", "literal", "data"}[item.Kind]
	side := []string{"", "added", "removed", "changed"}[item.Side]
	place := item.Path
	if item.Kind != change.Data {
		place = fmt.Sprintf("%s:%d", item.File, item.Line)
	}
	line := fmt.Sprintf("%s %s %s: %s -> %s: %d", kind, side, place, item.Live, item.Candidate, shown)
	if item.Kind == change.Condition {
		line += fmt.Sprintf(" %d", untrue)
	}
	if item.Table != "" {
		line += " in " + item.Table
	}
	return line
}

func judgeOf(t testing.TB, live, candidate *adminpb.Policy) *authz.Judge {
	t.Helper()
	compiled := make([]*authz.Policy, 2)
	for i, p := range []*adminpb.Policy{live, candidate} {
		var err error
		if compiled[i], err = authz.Compile(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	judge, err := authz.NewJudge(t.Context(), live, candidate, compiled[0], compiled[1])
	if err != nil {
		t.Fatal(err)
	}
	again, err := authz.Items(t.Context(), live, candidate)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(judge.List, again); diff != "" {
		t.Errorf("the list is another one the second time:\n%s", diff)
	}
	return judge
}

// itemRequest is a line of a case: the hour, and the input.
func itemRequest(t testing.TB, line string) *authz.Request {
	t.Helper()
	hour, text, _ := strings.Cut(line, " ")
	at, err := time.Parse("15:04", hour)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	input, err := rego.NewInput(document)
	if err != nil {
		t.Fatal(err)
	}
	return &authz.Request{
		Time:   time.Date(2026, 11, 23, at.Hour(), at.Minute(), 0, 0, time.UTC),
		Source: func(*authz.ReadBudget) (rego.Input, error) { return input, nil },
	}
}

// TestItemsOfEqualPolicies: what is written otherwise and means the same is no item.
func TestItemsOfEqualPolicies(t *testing.T) {
	const module = `package envoy.authz

import data.roles as r

default allow := false

allow if {
	some role in input.roles
	need := input.need
	r[role][_] == need
	input.age > 17
}

allow if input.admin

deny if { x := input.a; not x == 1 } else := "b" if { input.b }

f(a, b) := c if { c := a + b }

test_it if allow
`
	for name, other := range map[string]string{
		"names":      strings.NewReplacer("role in", "one in", "[role]", "[one]", "f(a, b)", "f(x, y)", "a + b", "x + y").Replace(module),
		"order":      strings.Replace(module, "\tsome role in input.roles\n\tneed := input.need\n", "\tneed := input.need\n\tsome role in input.roles\n", 1),
		"operands":   strings.NewReplacer("r[role][_] == need", "need == r[role][_]", "input.age > 17", "17 < input.age", "x == 1", "1 == x").Replace(module),
		"import":     strings.NewReplacer("import data.roles as r\n", "", "r[role]", "data.roles[role]").Replace(module),
		"comments":   strings.Replace(module, "allow if input.admin", "# the admin\nallow if {\n\tprint(input)\n\tinput.admin\n}", 1),
		"test":       strings.Replace(module, "test_it if allow", "test_it if not allow", 1),
		"not asked":  module + "\nother if input.other\n",
		"definition": strings.Replace(strings.Replace(module, "allow if input.admin\n", "", 1), "default allow := false\n", "allow if input.admin\n\ndefault allow := false\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if other == module {
				t.Fatal("nothing is written otherwise")
			}
			policy := func(modules map[string]string) *adminpb.Policy {
				return &adminpb.Policy{
					Modules: modules, Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
				}
			}
			list, err := authz.Items(t.Context(), policy(map[string]string{"a.rego": module}), policy(map[string]string{"b.rego": other}))
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list.Items {
				t.Error(itemLine(item, 0, 0))
			}
		})
	}
}

// TestOneOfManyFactsIsSeen has 500 facts added that are true for each request, of which it needs one.
func TestOneOfManyFactsIsSeen(t *testing.T) {
	const live = "package envoy.authz\n\ndefault allow := false\n\nallow if input.need in perms\n\nperms contains \"none\"\n"
	var facts strings.Builder
	for i := range 500 {
		fmt.Fprintf(&facts, "\nperms contains \"p%d\"\n", i)
	}
	judge := judgeOf(t, regoPolicy(live, nil), regoPolicy(live+facts.String(), nil))
	found, err := judge.Examine(t.Context(), nil, itemRequest(t, `10:00 {"need": "p377"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for i := range found {
		texts = append(texts, judge.List.Items[i].Candidate)
	}
	if diff := cmp.Diff([]string{`perms contains "p377"`}, texts); diff != "" {
		t.Errorf("of %d items, these are shown (-want +got):\n%s", len(judge.List.Items), diff)
	}
}
