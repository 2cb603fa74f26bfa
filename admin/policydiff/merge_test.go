package policydiff_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"understudy/admin/policydiff"
	adminpb "understudy/admin/v1"
)

// parsed is a policy in JSON, in which ' stands for quotes.
func parsed(t testing.TB, text string) *adminpb.Policy {
	t.Helper()
	p := &adminpb.Policy{}
	if err := protojson.Unmarshal([]byte(strings.ReplaceAll(text, "'", `"`)), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMerge: what one has changed is taken, whoever it is; what both have changed otherwise is a conflict, in which the
// own version stays.
func TestMerge(t *testing.T) {
	for _, tt := range []struct{ name, base, live, own, want, conflicts string }{
		{name: "a key of each", base: `{'data':{'a':1}}`, live: `{'data':{'a':1,'b':2}}`, own: `{'data':{'a':1,'c':3}}`, want: `{'data':{'a':1,'b':2,'c':3}}`},
		{name: "deep", base: `{'data':{'a':{'x':1,'y':1}}}`, live: `{'data':{'a':{'x':2,'y':1}}}`, own: `{'data':{'a':{'x':1,'y':2}}}`, want: `{'data':{'a':{'x':2,'y':2}}}`},
		{name: "removed by one", base: `{'data':{'a':1,'b':1}}`, live: `{'data':{'a':1}}`, own: `{'data':{'a':2,'b':1}}`, want: `{'data':{'a':2}}`},
		{name: "removed and changed", base: `{'data':{'a':1}}`, live: `{'data':{'b':1}}`, own: `{'data':{'a':2}}`, want: `{'data':{'a':2,'b':1}}`, conflicts: `data.a`},
		{name: "changed and removed", base: `{'data':{'a':1,'b':1}}`, live: `{'data':{'a':2,'b':1}}`, own: `{'data':{'b':1}}`, want: `{'data':{'b':1}}`, conflicts: `data.a`},
		{name: "the same", base: `{'data':{'a':1}}`, live: `{'data':{'a':2}}`, own: `{'data':{'a':2}}`, want: `{'data':{'a':2}}`},
		{name: "another type", base: `{'data':{'a':1}}`, live: `{'data':{'a':{'x':1}}}`, own: `{'data':{'a':{'y':1}}}`, want: `{'data':{'a':{'y':1}}}`, conflicts: `data.a`},
		{name: "objects that both have added", base: `{}`, live: `{'data':{'a':{'x':1}}}`, own: `{'data':{'a':{'y':1}}}`, want: `{'data':{'a':{'x':1,'y':1}}}`},
		{name: "no data any more", base: `{'data':{'a':1}}`, live: `{}`, own: `{'data':{'a':1}}`, want: `{}`},
		{name: "null is a value", base: `{'data':{'a':null}}`, live: `{'data':{'a':null,'b':null}}`, own: `{'data':{}}`, want: `{'data':{'b':null}}`},
		{name: "sets", base: `{'data':{'s':['a','b']}}`, live: `{'data':{'s':['b','c']}}`, own: `{'data':{'s':['z','a','b',1]}}`, want: `{'data':{'s':['z','b',1,'c']}}`},
		{name: "lists in another order", base: `{'data':{'s':['a','b']}}`, live: `{'data':{'s':['b','a']}}`, own: `{'data':{'s':['a','b','c']}}`, want: `{'data':{'s':['a','b','c']}}`, conflicts: `data.s`},
		{name: "lists with an element twice", base: `{'data':{'s':['a','a']}}`, live: `{'data':{'s':['a']}}`, own: `{'data':{'s':['a','a','a']}}`, want: `{'data':{'s':['a','a','a']}}`, conflicts: `data.s`},
		{name: "lists of objects", base: `{'data':{'s':[{'x':1}]}}`, live: `{'data':{'s':[{'x':2}]}}`, own: `{'data':{'s':[{'x':1}],'t':1}}`, want: `{'data':{'s':[{'x':2}],'t':1}}`},
		{name: "projects", base: `{'exemptedProjects':['a','b']}`, live: `{'exemptedProjects':['a','b','c']}`, own: `{'exemptedProjects':['b','d']}`, want: `{'exemptedProjects':['b','d','c']}`},
		{name: "rules", base: `{'rules':[{'ruleId':'a'},{'ruleId':'b'},{'ruleId':'c'}]}`, live: `{'rules':[{'ruleId':'a'},{'ruleId':'b'}]}`, own: `{'rules':[{'ruleId':'x'},{'ruleId':'a'},{'ruleId':'b'},{'ruleId':'c'}]}`, want: `{'rules':[{'ruleId':'x'},{'ruleId':'a'},{'ruleId':'b'}]}`},
		{name: "a rule of both", base: `{'rules':[{'ruleId':'a'}]}`, live: `{'rules':[{'ruleId':'b'}]}`, own: `{'rules':[{'ruleId':'c'}]}`, want: `{'rules':[{'ruleId':'c'}]}`, conflicts: `rules`},
		{name: "names", base: `{'displayName':'a','annotations':{'x':'1','y':'1'}}`, live: `{'displayName':'b','annotations':{'x':'2','y':'1'}}`, own: `{'displayName':'a','annotations':{'x':'3'}}`, want: `{'displayName':'b','annotations':{'x':'3'}}`, conflicts: `annotations.x`},
		{name: "modules", base: `{'modules':{'a':'1\n2\n3\n','b':'1\n','c':'1\n'}}`, live: `{'modules':{'a':'1\n2\nx\n','b':'1\n','d':'1\n'}}`, own: `{'modules':{'a':'y\n2\n3\n','c':'1\n'}}`, want: `{'modules':{'a':'y\n2\nx\n','d':'1\n'}}`},
		{name: "lines of a module", base: `{'modules':{'a':'1\n2\n'}}`, live: `{'modules':{'a':'1\nx\n'}}`, own: `{'modules':{'a':'1\ny\n'}}`, want: `{'modules':{'a':'1\n<<<<<<< experiment\ny\n||||||| base\n2\n=======\nx\n>>>>>>> live policy\n'}}`, conflicts: `modules.a`},
		{name: "a module that is removed and changed", base: `{'modules':{'a':'1\n','b':'1\n'}}`, live: `{'modules':{'a':'2\n'}}`, own: `{'modules':{'b':'2\n'}}`, want: `{'modules':{'a':'2\n','b':'2\n'}}`, conflicts: `modules.a modules.b`},
		{name: "a module that both add", base: `{}`, live: `{'modules':{'a':'1\n'}}`, own: `{'modules':{'a':'1\n'}}`, want: `{'modules':{'a':'1\n'}}`},
		{name: "the end of a file", base: `{'modules':{'a':'1\n2'}}`, live: `{'modules':{'a':'1\n2\n'}}`, own: `{'modules':{'a':'0\n1\n2'}}`, want: `{'modules':{'a':'0\n1\n2\n'}}`},
	} {
		got, conflicts := policydiff.Merge(parsed(t, tt.base), parsed(t, tt.live), parsed(t, tt.own))
		var paths []string
		for _, c := range conflicts {
			paths = append(paths, c.Path)
		}
		if diff := cmp.Diff(parsed(t, tt.want), got, protocmp.Transform()); diff != "" || strings.Join(paths, " ") != tt.conflicts {
			t.Errorf("%s: conflicts %q, want %q; %s", tt.name, paths, tt.conflicts, diff)
		}
	}
}

// TestMergeLosesNothing: what the live policy and an experiment have each changed is all in the merge, or named as a
// conflict; who has changed nothing changes nothing.
func TestMergeLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	conflicts := 0
	for range 3_000 {
		base := randomData(random, 3)
		live, own := edited(random, base), edited(random, base)
		base["z"], live["z"], own["z"] = 0, 0, 0 // data without a key is none
		merged, found := policydiff.Merge(policy(t, base), policy(t, live), policy(t, own))
		conflicts += len(found)
		for _, side := range []*adminpb.Policy{policy(t, live), policy(t, own)} {
			lost := pathsOf(policydiff.Of(merged, side))
			for _, p := range pathsOf(policydiff.Of(policy(t, base), side)) {
				// What is lost is a place that a conflict names, or one of the other side's.
				if slices.Contains(lost, p) && !isNamed(found, p) && !isSet(base, p) {
					t.Fatalf("base %v, live %v, own %v: %s is lost in %v", base, live, own, p, merged.Data)
				}
			}
		}
		alone, none := policydiff.Merge(policy(t, base), policy(t, base), policy(t, own))
		if !policydiff.Of(alone, policy(t, own)).Equal() || none != nil {
			t.Fatalf("base %v, own %v: %v, %v", base, own, alone.Data, none)
		}
	}
	if conflicts < 100 {
		t.Errorf("there were %d conflicts only", conflicts)
	}
}

// randomData is a document of nested objects with small numbers.
func randomData(random *rand.Rand, depth int) map[string]any {
	out := make(map[string]any)
	for range 1 + random.IntN(4) {
		key := string(rune('a' + random.IntN(5)))
		switch {
		case depth > 0 && random.IntN(2) == 0:
			out[key] = randomData(random, depth-1)
		case random.IntN(4) == 0:
			out[key] = []any{random.IntN(2), 2 + random.IntN(2)}
		default:
			out[key] = random.IntN(3)
		}
	}
	return out
}

// edited is a document with some random changes.
func edited(random *rand.Rand, of map[string]any) map[string]any {
	out := maps.Clone(of)
	for key, value := range of {
		switch inner, isObject := value.(map[string]any); {
		case random.IntN(4) == 0:
			delete(out, key)
		case isObject:
			out[key] = edited(random, inner)
		case random.IntN(4) == 0:
			out[key] = random.IntN(3)
		}
	}
	if random.IntN(3) == 0 {
		out[string(rune('a'+random.IntN(8)))] = random.IntN(3)
	}
	return out
}

func pathsOf(d policydiff.Diff) (paths []string) {
	for _, v := range d.Values {
		paths = append(paths, v.Path)
	}
	return paths
}

// isNamed reports whether a conflict is at a path, in it or around it.
func isNamed(conflicts []policydiff.Conflict, path string) bool {
	return slices.ContainsFunc(conflicts, func(c policydiff.Conflict) bool {
		return strings.HasPrefix(path, c.Path) || strings.HasPrefix(c.Path, path)
	})
}

// isSet reports whether the document has a list at a path, of which single elements are merged.
func isSet(of map[string]any, path string) bool {
	var at any = of
	for _, key := range strings.Split(path, ".")[1:] {
		inner, _ := at.(map[string]any)
		at = inner[strings.Split(key, "[")[0]]
	}
	return strings.HasPrefix(fmt.Sprintf("%T", at), "[]")
}
