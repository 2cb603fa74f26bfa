package aip_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

var policyDescriptor = (&adminpb.Policy{}).ProtoReflect().Descriptor()

func named(id string, second int64, display string) *adminpb.Policy {
	p := &adminpb.Policy{Name: "projects/p/locations/l/policies/" + id, DisplayName: display}
	if second != 0 {
		p.CreateTime = &timestamppb.Timestamp{Seconds: second}
	}
	return p
}

func ids(policies []*adminpb.Policy) string {
	var out []string
	for _, p := range policies {
		out = append(out, p.Name[strings.LastIndexByte(p.Name, '/')+1:])
	}
	return strings.Join(out, " ")
}

func TestOrder(t *testing.T) {
	for order, want := range map[string]string{
		"":                         "a b c d",
		"name":                     "a b c d",
		"name desc":                "d c b a",
		"create_time":              "d c b a",
		"createTime desc":          "a b c d",
		"display_name, name desc":  "d b c a",
		" display_name  ,  name ":  "b d c a",
		"display_name desc,  name": "a c b d",
	} {
		policies := []*adminpb.Policy{named("c", 2, "y"), named("a", 4, "z"), named("d", 0, "x"), named("b", 3, "x")}
		parsed, err := aip.ParseOrder(order, policyDescriptor)
		if err != nil {
			t.Errorf("%q: %v", order, err)
			continue
		}
		aip.Sort(policies, parsed)
		if got := ids(policies); got != want {
			t.Errorf("%q: got %s, want %s", order, got, want)
		}
	}
	for _, order := range []string{"nope", "name down", "rules", "annotations", "name,", "name desc desc", "data", "name.x"} {
		if _, err := aip.ParseOrder(order, policyDescriptor); err == nil {
			t.Errorf("%q is accepted", order)
		}
	}
}

func TestPageSize(t *testing.T) {
	for given, want := range map[int32]int{0: 50, 1: 1, 1000: 1000, 1001: 1000, 1 << 30: 1000} {
		if got, err := aip.PageSize(given); err != nil || got != want {
			t.Errorf("%d: got %d, %v; want %d", given, got, err, want)
		}
	}
	if _, err := aip.PageSize(-1); err == nil {
		t.Error("a negative size is accepted")
	}
}

// TestPagesSeeEachItemOnce pages through a list that changes at every step; what
// was there all the time is seen exactly once (B-89).
func TestPagesSeeEachItemOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, orderBy := range []string{"", "create_time desc", "display_name, create_time"} {
		order, err := aip.ParseOrder(orderBy, policyDescriptor)
		if err != nil {
			t.Fatal(err)
		}
		var stable []*adminpb.Policy
		for i := range 40 {
			stable = append(stable, named(fmt.Sprintf("s%d", i), random.Int64N(5), string('a'+rune(random.IntN(3)))))
		}
		seen := make(map[string]int)
		for token, first := "", true; first || token != ""; first = false {
			list := slices.Clone(stable)
			for i := range random.IntN(20) {
				list = append(list, named(fmt.Sprintf("t%d", i), random.Int64N(5), string('a'+rune(random.IntN(3)))))
			}
			page, next, err := aip.Page(list, order, 7, token, "query")
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range page {
				seen[p.Name]++
			}
			token = next
		}
		for _, p := range stable {
			if seen[p.Name] != 1 {
				t.Errorf("order %q: %s was seen %d times", orderBy, p.Name, seen[p.Name])
			}
		}
	}
}

func TestPageTokenBelongsToItsQuery(t *testing.T) {
	list := func() []*adminpb.Policy { return []*adminpb.Policy{named("a", 1, ""), named("b", 1, "")} }
	_, token, err := aip.Page(list(), aip.Order{}, 1, "", "parent", "filter")
	if err != nil || token == "" {
		t.Fatal(token, err)
	}
	if page, _, err := aip.Page(list(), aip.Order{}, 5, token, "parent", "filter"); err != nil || ids(page) != "b" {
		t.Errorf("got %s, %v; want b", ids(page), err)
	}
	for _, query := range [][]string{{"parent", "other"}, {"parentfilter"}, {"parent", "filter", ""}} {
		if _, _, err := aip.Page(list(), aip.Order{}, 1, token, query...); err == nil {
			t.Errorf("the token is accepted for %q", query)
		}
	}
}

// FuzzPageToken pages by anything: no panic, and no token of the fuzzer is right.
func FuzzPageToken(f *testing.F) {
	f.Add("")
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, token string) {
		list := []*adminpb.Policy{named("a", 1, ""), named("b", 2, "")}
		if _, _, err := aip.Page(list, aip.Order{}, 1, token, "q"); err == nil && token != "" {
			t.Errorf("the token %q is accepted", token)
		}
	})
}

// FuzzOrder parses any order: no panic, and what is parsed sorts.
func FuzzOrder(f *testing.F) {
	f.Add("name desc, create_time")
	f.Fuzz(func(_ *testing.T, text string) {
		order, err := aip.ParseOrder(text, policyDescriptor)
		if err != nil {
			return
		}
		aip.Sort([]*adminpb.Policy{named("b", 0, "x"), named("a", 1, ""), {}}, order)
	})
}

func TestMask(t *testing.T) {
	stored := func() *adminpb.PolicyExperiment {
		return &adminpb.PolicyExperiment{
			Name: "n", Uid: "u", Etag: "e", DisplayName: "old", Annotations: map[string]string{"a": "1", "b.c/d": "1"},
			Policy: &adminpb.Policy{Name: "p", DisplayName: "inner", ExemptedProjects: []string{"x"}},
		}
	}
	for _, c := range []struct {
		name string
		mask []string
		body *adminpb.PolicyExperiment
		want func(*adminpb.PolicyExperiment)
	}{
		{"one field", []string{"display_name"}, &adminpb.PolicyExperiment{DisplayName: "new", Annotations: map[string]string{"z": "z"}},
			func(e *adminpb.PolicyExperiment) { e.DisplayName = "new" }},
		{"cleared", []string{"displayName"}, &adminpb.PolicyExperiment{}, func(e *adminpb.PolicyExperiment) { e.DisplayName = "" }},
		{"nested", []string{"policy.display_name"}, &adminpb.PolicyExperiment{Policy: &adminpb.Policy{DisplayName: "new"}},
			func(e *adminpb.PolicyExperiment) { e.Policy.DisplayName = "new" }},
		{"nested and absent", []string{"policy.display_name"}, &adminpb.PolicyExperiment{},
			func(e *adminpb.PolicyExperiment) { e.Policy.DisplayName = "" }},
		{"a message as a whole keeps its name", []string{"policy"}, &adminpb.PolicyExperiment{Policy: &adminpb.Policy{DisplayName: "new"}},
			func(e *adminpb.PolicyExperiment) { e.Policy = &adminpb.Policy{Name: "p", DisplayName: "new"} }},
		{"a key", []string{"annotations.`b.c/d`"}, &adminpb.PolicyExperiment{Annotations: map[string]string{"b.c/d": "2", "a": "2"}},
			func(e *adminpb.PolicyExperiment) { e.Annotations["b.c/d"] = "2" }},
		{"a key that is gone", []string{"annotations.a"}, &adminpb.PolicyExperiment{},
			func(e *adminpb.PolicyExperiment) { delete(e.Annotations, "a") }},
		{"output only", []string{"uid", "etag", "preview_metadata.state"}, &adminpb.PolicyExperiment{
			Uid: "x", Etag: "x", PreviewMetadata: &adminpb.PolicyPreviewMetadata{State: adminpb.PolicyPreviewMetadata_ACTIVE},
		}, func(*adminpb.PolicyExperiment) {}},
		{"everything", []string{"*"}, &adminpb.PolicyExperiment{Uid: "x", Etag: "x", DisplayName: "new", Policy: &adminpb.Policy{Name: "p", Uid: "x"}},
			func(e *adminpb.PolicyExperiment) {
				e.DisplayName, e.Annotations, e.Policy = "new", nil, &adminpb.Policy{Name: "p"}
			}},
		{"what is populated", nil, &adminpb.PolicyExperiment{Policy: &adminpb.Policy{DisplayName: "new"}},
			func(e *adminpb.PolicyExperiment) { e.Policy.DisplayName = "new" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mask := aip.PopulatedMask(c.body)
			if c.mask != nil {
				var err error
				if mask, err = aip.ParseMask(c.mask, c.body.ProtoReflect().Descriptor()); err != nil {
					t.Fatal(err)
				}
			}
			got, want, body := stored(), stored(), proto.CloneOf(c.body)
			c.want(want)
			if err := mask.Apply(got, c.body); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if !proto.Equal(c.body, body) {
				t.Error("the body was changed")
			}
		})
	}
}

func TestMaskErrors(t *testing.T) {
	d := (&adminpb.PolicyExperiment{}).ProtoReflect().Descriptor()
	for _, path := range []string{"nope", "policy.nope", "display_name.x", "policy.rules.0", "policy.rules.rule_id", "annotations.a.b", "", "policy.", ".policy", "annotations.`a", "annotations.`a`b"} {
		if _, err := aip.ParseMask([]string{path}, d); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
	if _, err := aip.ParseMask([]string{"*", "policy"}, d); err == nil {
		t.Error("* is accepted together with another path")
	}
	mask, err := aip.ParseMask([]string{"policy.name"}, d)
	if err != nil {
		t.Fatal(err)
	}
	e := &adminpb.PolicyExperiment{Policy: &adminpb.Policy{Name: "p"}}
	if err := mask.Apply(e, &adminpb.PolicyExperiment{Policy: &adminpb.Policy{Name: "q"}}); err == nil {
		t.Error("an identifier was changed")
	}
}

func TestClearOutputOnly(t *testing.T) {
	e := &adminpb.PolicyExperiment{
		Uid: "u", Etag: "e", DisplayName: "d", PreviewMetadata: &adminpb.PolicyPreviewMetadata{LogPrefix: "x"},
		Policy: &adminpb.Policy{Name: "p", Etag: "e", Uid: "u", Revision: "r", DisplayName: "d"},
	}
	aip.ClearOutputOnly(e)
	want := &adminpb.PolicyExperiment{DisplayName: "d", Policy: &adminpb.Policy{Name: "p", DisplayName: "d"}}
	if !proto.Equal(e, want) {
		t.Errorf("got %v, want %v", e, want)
	}
}

// FuzzMask parses any path and applies it: no panic, and output-only fields stay.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{"*", "policy.rules", "annotations.`a.b`", "a..b", "preview_metadata.state"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		mask, err := aip.ParseMask([]string{path}, (&adminpb.PolicyExperiment{}).ProtoReflect().Descriptor())
		if err != nil {
			return
		}
		for _, body := range []*adminpb.PolicyExperiment{{}, {Uid: "x", Policy: &adminpb.Policy{Uid: "x"}, Annotations: map[string]string{"a": "b"}}} {
			e := &adminpb.PolicyExperiment{Uid: "u"}
			if err := mask.Apply(e, body); err == nil && (e.Uid != "u" || e.GetPolicy().GetUid() != "") {
				t.Errorf("the mask %q changes what is output only", path)
			}
		}
	})
}
