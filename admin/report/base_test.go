package report_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
	"understudy/rego/change"
)

// version is a version of a policy: the bodies of its rule, and its data.
type version struct{ module, data string }

func (v version) source(t *testing.T) change.Source {
	t.Helper()
	data := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(v.data), data); err != nil {
		t.Fatal(err)
	}
	return change.Source{Modules: map[string]string{"shop.rego": "package shop\n" + v.module}, Data: data, Paths: []string{"shop/allow"}}
}

// compared is in what a version differs from another one.
func compared(t *testing.T, from, to version) *change.List {
	t.Helper()
	c, err := change.Compare(t.Context(), from.source(t), to.source(t))
	if err != nil {
		t.Fatal(err)
	}
	return &c.List
}

// lost is what a commit of an experiment takes back of the live policy, in a line each.
func lost(t *testing.T, base, live, experiment version) (out []string) {
	t.Helper()
	for _, c := range report.TakenBack(compared(t, base, live), compared(t, base, experiment), compared(t, experiment, live)) {
		place := c.DataPath
		if place == "" {
			place = c.Rule
		}
		out = append(out, fmt.Sprintf("%s %s: %q became %q", c.State, place, c.BaseText, c.PolicyText))
	}
	return out
}

// TestTakenBack: each change of the live policy since the base is in the experiment, taken back or overridden.
func TestTakenBack(t *testing.T) {
	const users = "allow if not data.users[input.user].suspended\n"
	const hour = "allow if input.hour < %d\n"
	for name, c := range map[string]struct {
		base, live, experiment version
		want                   []string
	}{
		"a user is suspended, and the experiment changes another one": {
			version{users, `{"users": {"a": {"suspended": false}, "b": {"suspended": false}}}`},
			version{users, `{"users": {"a": {"suspended": true}, "b": {"suspended": false}}}`},
			version{users, `{"users": {"a": {"suspended": false}, "b": {"suspended": true}}}`},
			[]string{`TAKEN_BACK data.users.a.suspended: "false" became "true"`},
		},
		"the experiment suspends the user, too": {
			version{users, `{"users": {"a": {"suspended": false}}}`},
			version{users, `{"users": {"a": {"suspended": true}}}`},
			version{users + "allow if input.admin\n", `{"users": {"a": {"suspended": true}}}`},
			nil,
		},
		"a literal that both change": {
			version{fmt.Sprintf(hour, 22), `{}`}, version{fmt.Sprintf(hour, 21), `{}`}, version{fmt.Sprintf(hour, 20), `{}`},
			[]string{`OVERRIDDEN data.shop.allow: "input.hour < 22" became "input.hour < 21"`},
		},
		"a rule that the live policy has removed": {
			version{users + "allow if input.debug\n", `{}`}, version{users, `{}`}, version{users + "allow if input.debug\nallow if input.admin\n", `{}`},
			[]string{`TAKEN_BACK data.shop.allow: "allow if input.debug" became ""`},
		},
		"a condition that the live policy has added": {
			version{"allow if { input.a; input.b }\n", `{}`}, version{"allow if { input.a; input.b; not input.c }\n", `{}`},
			version{"allow if { input.a; input.b }\nallow if input.d\n", `{}`},
			[]string{`TAKEN_BACK data.shop.allow: "" became "not input.c"`},
		},
		"the same change in other words": {
			version{"allow if { input.a; input.b }\n", `{}`}, version{"allow if { input.a; input.b; not input.c }\n", `{}`},
			version{"allow if { input.a; input.b; not excluded }\nexcluded if input.c\n", `{}`},
			[]string{`TAKEN_BACK data.shop.allow: "" became "not input.c"`},
		},
		"data of which the experiment has more": {
			version{users, `{}`}, version{users, `{"users": {"a": {"suspended": true}}}`}, version{users, `{"users": {"a": {"suspended": true}, "b": {}}}`},
			nil,
		},
		"data of which the experiment has less": {
			version{users, `{}`}, version{users, `{"users": {"a": {"suspended": true}}}`}, version{users, `{"users": {"a": {}}}`},
			[]string{`OVERRIDDEN data.users: "" became "{\"a\":{\"suspended\":true}}"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lost(t, c.base, c.live, c.experiment)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// ruleForms are rules that a random version may have, some of them with a number.
var ruleForms = []string{
	"allow if input.a\n", "allow if { input.hour < %d; input.b }\n", "allow if data.users[input.user].n == %d\n", "allow if input.x else := false if input.n == %d\n",
}

// users are those that the data of a random version may have, each with a number.
var users = []string{"a", "b", "c"}

// parts are those of a random version: of each rule and user its number, 0 if it is not there.
type parts [7]int

func randomParts(r *rand.Rand) (p parts) {
	for i := range p {
		p[i] = r.IntN(4)
		switch i {
		case 0:
			p[i] = r.IntN(2)
		case 2:
			p[i] = 1 + r.IntN(3) // data that no rule reads is no part of a change
		}
	}
	return p
}

func (p parts) version() version {
	module, data := "default allow := false\n", []string{}
	for i, form := range ruleForms {
		switch {
		case p[i] == 0:
		case strings.Contains(form, "%d"):
			module += fmt.Sprintf(form, p[i])
		default:
			module += form
		}
	}
	for i, name := range users {
		if n := p[len(ruleForms)+i]; n > 0 {
			data = append(data, fmt.Sprintf(`%q: {"n": %d}`, name, n))
		}
	}
	return version{module, `{"users": {` + strings.Join(data, ",") + `}}`}
}

// TestNothingIsLostUnnoticed: an experiment that is the live policy takes nothing back, one that is still the base takes
// back each change, and of any other something is named if it lacks a change of the live policy.
func TestNothingIsLostUnnoticed(t *testing.T) {
	r, unnoticed := rand.New(rand.NewPCG(1, 2)), 0
	for range testkit.Cases(1000) {
		b, l, e := randomParts(r), randomParts(r), randomParts(r)
		base, live, experiment := b.version(), l.version(), e.version()
		since := compared(t, base, live)
		if got := lost(t, base, live, live); len(got) > 0 {
			t.Fatalf("the live policy itself takes back %q", got)
		}
		if got := report.TakenBack(since, compared(t, base, base), since); len(got) != len(since.Items) {
			t.Fatalf("%d of %d changes are taken back:\n%v\n%v", len(got), len(since.Items), base, live)
		}
		lacks := false
		for i := range b {
			lacks = lacks || l[i] != b[i] && e[i] != l[i]
		}
		if unknown := report.TakenBack(since, nil, since); (len(unknown) == 0) != since.None() {
			t.Fatalf("of an experiment that cannot be compared, %q is named", unknown)
		}
		got := lost(t, base, live, experiment)
		if lacks && len(got) == 0 {
			t.Fatalf("nothing is named:\n%v\n%v\n%v", base, live, experiment)
		}
		if !lacks && len(got) == 0 {
			unnoticed++
		}
	}
	if unnoticed == 0 {
		t.Error("no experiment has all changes of the live policy")
	}
}

// TestImpliedRequirement: who requires anything does not mean to undo a change of the live policy.
func TestImpliedRequirement(t *testing.T) {
	undoes := report.Base{Known: true, Changes: []*adminpb.Report_TakenBackChange{{State: adminpb.Report_TakenBackChange_TAKEN_BACK}}}
	for _, c := range []struct {
		require string
		base    report.Base
		unmet   []string
	}{
		{"", undoes, nil},
		{"failed=0", report.Base{Known: true}, nil},
		{"failed=0", undoes, []string{"taken-back=0"}},
		{"failed=0,taken-back<=1", undoes, nil},
		{"failed=0,taken-back=0", undoes, []string{"taken-back=0"}},
		{"failed=0,taken-back=0", report.Base{}, []string{"taken-back=0"}},
		{"failed=0", report.Base{}, nil},
	} {
		required, err := report.Parse(c.require)
		if err != nil {
			t.Fatal(err)
		}
		r := report.Build(report.Input{Name: "x", Base: c.base})
		report.SetResults(r, nil, required, report.Committer{})
		var unmet []string
		for _, q := range report.Unmet(r) {
			unmet = append(unmet, q.Requirement)
		}
		if diff := cmp.Diff(c.unmet, unmet); diff != "" {
			t.Errorf("%q, %d changes: %s", c.require, len(c.base.Changes), diff)
		}
	}
}
