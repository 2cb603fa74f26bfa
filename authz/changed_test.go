package authz_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"understudy/authz"
)

func TestChangedNamesWhatIsNotTheSame(t *testing.T) {
	field := func(pairs ...string) (out []authz.Field) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, authz.Field{Name: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	allow := authz.Decision{Effect: authz.Allow}
	with := func(d authz.Decision, change func(d *authz.Decision)) authz.Decision {
		change(&d)
		return d
	}
	for _, c := range []struct {
		name             string
		live, experiment authz.Decision
		want             []string
	}{
		{"nothing", allow, with(allow, func(d *authz.Decision) { d.Metadata = map[string]any{} }), nil},
		{"the status", authz.Decision{}, authz.Decision{HTTPStatus: 401}, []string{"status"}},
		{"not the default status", authz.Decision{}, authz.Decision{HTTPStatus: 403}, nil},
		{"the effect", allow, authz.Decision{Body: "no"}, []string{"body", "status"}},
		{"a header", with(allow, func(d *authz.Decision) { d.Headers = field("x-role", "a", "b", "1") }),
			with(allow, func(d *authz.Decision) { d.Headers = field("x-role", "b", "b", "1") }), []string{"header x-role"}},
		{"a header that is not there", with(allow, func(d *authz.Decision) { d.Headers = field("X-Role", "a") }), allow, []string{"header x-role"}},
		{"the case of a header", with(allow, func(d *authz.Decision) { d.Headers = field("X-Role", "a") }),
			with(allow, func(d *authz.Decision) { d.Headers = field("x-role", "a") }), []string{"header x-role"}},
		{"the order of headers", with(allow, func(d *authz.Decision) { d.Headers = field("a", "1", "b", "2") }),
			with(allow, func(d *authz.Decision) { d.Headers = field("b", "2", "a", "1") }), []string{"header (order)"}},
		{"the order of values", with(allow, func(d *authz.Decision) { d.Headers = field("a", "1", "a", "2") }),
			with(allow, func(d *authz.Decision) { d.Headers = field("a", "2", "a", "1") }), []string{"header a"}},
		{"a header of a denial", authz.Decision{Headers: field("www-authenticate", "x")}, authz.Decision{}, []string{"response header www-authenticate"}},
		{"a header that goes elsewhere", with(allow, func(d *authz.Decision) { d.Headers = field("a", "1") }), authz.Decision{Headers: field("a", "1")},
			[]string{"header a", "response header a", "status"}},
		{"all else", with(allow, func(d *authz.Decision) {
			d.ResponseHeaders, d.RemoveHeaders, d.SetQuery, d.RemoveQuery = field("r", "1"), []string{"h"}, field("q", "1"), []string{"p", "o"}
			d.Metadata = map[string]any{"tenant": map[string]any{"id": json.Number("1")}, "same": true}
		}), with(allow, func(d *authz.Decision) {
			d.RemoveQuery = []string{"o", "p"}
			d.Metadata = map[string]any{"tenant": map[string]any{"id": json.Number("2")}, "same": true, "new": nil}
		}), []string{"metadata new", "metadata tenant", "query q", "remove header h", "remove query (order)", "response header r"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pair := range [][2]authz.Decision{{c.live, c.experiment}, {c.experiment, c.live}} {
				got := authz.Changed(pair[0], pair[1])
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if same := authz.Compare(pair[0], pair[1]) == authz.Unchanged; same != (got == nil) {
					t.Errorf("the comparison says that they are the same: %v", same)
				}
			}
		})
	}
}

// TestChangedIsBounded: a policy can make names of what a caller sends.
func TestChangedIsBounded(t *testing.T) {
	d := authz.Decision{Effect: authz.Allow, Metadata: map[string]any{}}
	for i := range 100 {
		d.Metadata[fmt.Sprintf("\n%02d\xff%s", i, strings.Repeat("ä", 5000))] = true
	}
	got := authz.Changed(authz.Decision{Effect: authz.Allow}, d)
	if len(got) != 17 || got[16] != "…" || !slices.IsSorted(got[:16]) {
		t.Errorf("there are %d names, the last is %q; want 16 in order, and …", len(got), got[len(got)-1])
	}
	for _, name := range got {
		if len(name) > 100 || !utf8.ValidString(name) || strings.Contains(name, "\n") {
			t.Errorf("a name is %q", name)
		}
	}
}

func TestChangedForBlazarIsEffectAndReason(t *testing.T) {
	r := &authz.Request{Reservation: &authz.Reservation{}}
	got := r.Changed(authz.Decision{Reason: "a", Body: "x"}, authz.Decision{Reason: "b", Body: "y", HTTPStatus: 401})
	if diff := cmp.Diff([]string{"reason"}, got); diff != "" {
		t.Error(diff)
	}
}
