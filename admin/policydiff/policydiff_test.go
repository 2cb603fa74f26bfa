package policydiff_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/policydiff"
	adminpb "understudy/admin/v1"
)

func policy(t testing.TB, data map[string]any) *adminpb.Policy {
	t.Helper()
	document, err := structpb.NewStruct(data)
	if err != nil {
		t.Fatal(err)
	}
	return &adminpb.Policy{Data: document}
}

// TestValues: what differs is named by its path, down to where objects and lists differ.
func TestValues(t *testing.T) {
	left := policy(t, map[string]any{
		"roles": map[string]any{"auditor": []any{"read"}, "viewer": []any{"read"}}, "a b": 1.5, "gone": nil,
		"list": []any{"a", map[string]any{"k": 1}, "c"}, "html": "<&>",
	})
	right := policy(t, map[string]any{
		"roles": map[string]any{"auditor": []any{"read", "write"}, "viewer": []any{"read"}}, "a b": 2, "new": map[string]any{},
		"list": []any{"a", map[string]any{"k": 2}, "c"}, "html": "<&>!",
	})
	left.DisplayName, left.Annotations, left.ExemptedProjects = "Shop", map[string]string{"x.example.com/y": "1", "gone": ""}, []string{"p"}
	right.Annotations = map[string]string{"x.example.com/y": "2", "new": ""}
	left.Rules = []*adminpb.PolicyRule{{RuleId: "a"}, {RuleId: "b"}}
	right.Rules = []*adminpb.PolicyRule{{RuleId: "b"}}
	want := []policydiff.Value{
		{Path: "displayName", Left: `"Shop"`},
		{Path: "rules[0]", Left: `{"ruleId":"a"}`, Right: `{"ruleId":"b"}`},
		{Path: "rules[1]", Left: `{"ruleId":"b"}`},
		{Path: `data["a b"]`, Left: "1.5", Right: "2"},
		{Path: "data.gone", Left: "null"},
		{Path: "data.html", Left: `"<&>"`, Right: `"<&>!"`},
		{Path: "data.list[1].k", Left: "1", Right: "2"},
		{Path: "data.new", Right: "{}"},
		{Path: "data.roles.auditor", Left: `["read"]`, Right: `["read","write"]`},
		{Path: "exemptedProjects", Left: `["p"]`},
		{Path: "annotations.gone", Left: `""`},
		{Path: "annotations.new", Right: `""`},
		{Path: `annotations["x.example.com/y"]`, Left: `"1"`, Right: `"2"`},
	}
	d := policydiff.Of(left, right)
	if diff := cmp.Diff(want, d.Values); diff != "" || d.Equal() {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !policydiff.Of(left, left).Equal() || !policydiff.Of(nil, &adminpb.Policy{Name: "p", Etag: "e"}).Equal() {
		t.Error("what is equal differs")
	}
}

// TestModules: each is added, removed, changed or alike.
func TestModules(t *testing.T) {
	left := &adminpb.Policy{Modules: map[string]string{"a": "1\n", "b": "1\n", "c": "1\n"}}
	right := &adminpb.Policy{Modules: map[string]string{"b": "2\n", "c": "1\n", "d": "1\n"}}
	d := policydiff.Of(left, right)
	var got []string
	for _, m := range d.Modules {
		got = append(got, m.Name+" "+string(m.Change)+"\n"+m.Unified(policydiff.Names{Left: "l/" + m.Name, Right: "r/" + m.Name}))
	}
	want := []string{
		"a removed\n--- l/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n",
		"b changed\n--- l/b\n+++ r/b\n@@ -1 +1 @@\n-1\n+2\n",
		"d added\n--- /dev/null\n+++ r/d\n@@ -0,0 +1 @@\n+1\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c"}, d.Alike); diff != "" {
		t.Error(diff)
	}
}

// TestUnified shows hunks with their context, and lines without an end.
func TestUnified(t *testing.T) {
	numbers := strings.Join(strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"), "\n")
	m := policydiff.Module{Change: policydiff.Changed, Left: numbers + "\n", Right: strings.Replace(strings.Replace(numbers, "\n5\n", "\nfive\n", 1), "\n14\n", "\n", 1)}
	want := `--- a
+++ b
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
@@ -11,10 +11,9 @@
 11
 12
 13
-14
 15
 16
 17
 18
 19
-20
+20
\ No newline at end of file
`
	if diff := cmp.Diff(want, m.Unified(policydiff.Names{Left: "a", Right: "b"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnifiedIsAPatch: applied to the left text as patch(1) does it, a diff gives the right one,
// whatever the texts are.
func TestUnifiedIsAPatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range random.IntN(40) {
			b.WriteByte("abcde"[random.IntN(5)])
			b.WriteByte('\n')
		}
		if random.IntN(3) == 0 {
			return strings.TrimSuffix(b.String(), "\n")
		}
		return b.String()
	}
	for range 2000 {
		left, right := text(), text()
		if random.IntN(2) == 0 { // mostly alike
			cut := random.IntN(len(left) + 1)
			right = left[:cut] + "x\n" + left[cut:]
		}
		diff := policydiff.Module{Change: policydiff.Changed, Left: left, Right: right}.Unified(policydiff.Names{Left: "a", Right: "b"})
		if got := patched(t, left, diff); got != right {
			t.Fatalf("from %q it makes %q, want %q:\n%s", left, got, right, diff)
		}
	}
}

// hunkHead is the first line of a hunk.
var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n$`)

// patched applies a diff, and holds it to what its hunks say of themselves.
func patched(t *testing.T, left, diff string) string {
	t.Helper()
	lines := strings.SplitAfter(left, "\n")
	var out strings.Builder
	done := 0 // lines of the left
	gone, come := 0, 0
	const noEnd = "\x00\n"
	for _, l := range strings.SplitAfter(strings.ReplaceAll(diff, "\n\\ No newline at end of file\n", noEnd), "\n")[2:] {
		l = strings.TrimSuffix(l, noEnd)
		if head := hunkHead.FindStringSubmatch(l); head != nil {
			if gone+come != 0 {
				t.Fatalf("a hunk lacks %d and %d lines:\n%s", gone, come, diff)
			}
			from, _ := strconv.Atoi(head[1])
			gone, come = length(head[2]), length(head[4])
			if gone > 0 {
				from--
			}
			for ; done < from; done++ {
				out.WriteString(lines[done])
			}
			continue
		}
		if l == "" {
			continue
		}
		if l[0] != '+' {
			if done >= len(lines) || lines[done] != l[1:] {
				t.Fatalf("the line %d is not %q:\n%s", done+1, l, diff)
			}
			done, gone = done+1, gone-1
		}
		if l[0] != '-' {
			out.WriteString(l[1:])
			come--
		}
	}
	if gone+come != 0 {
		t.Fatalf("the last hunk lacks %d and %d lines:\n%s", gone, come, diff)
	}
	for ; done < len(lines); done++ {
		out.WriteString(lines[done])
	}
	return out.String()
}

// length is the number of lines of a range; 1 if it is left out.
func length(text string) int {
	if text == "" {
		return 1
	}
	n, _ := strconv.Atoi(text)
	return n
}
