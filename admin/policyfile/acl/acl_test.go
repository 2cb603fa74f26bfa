package acl_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/admin/access"
	"understudy/admin/policyfile/acl"
)

func bindings(text string) acl.Bindings {
	out := make(acl.Bindings)
	for field := range strings.FieldsSeq(text) {
		member, roles, _ := strings.Cut(field, "=")
		for role := range strings.SplitSeq(roles, ",") {
			out[member] = append(out[member], access.Role("roles/understudy."+role))
		}
	}
	return out
}

func TestR76List(t *testing.T) {
	got := acl.Of(bindings("chef:v=viewer chef:c=committer chef:e=editor,viewer group:ops=owner token:ci=editor chef:token:ci=viewer allAuthenticated=viewer"))
	read := acl.Entry{Actors: []string{"allAuthenticated", "c", "chef:token:ci", "e", "token:ci", "v"}, Groups: []string{"ops"}}
	change := acl.Entry{Actors: []string{"e", "token:ci"}, Groups: []string{"ops"}}
	want := acl.List{
		acl.Read: read, acl.Create: change, acl.Update: change, acl.Delete: change,
		acl.Grant: {Actors: []string{}, Groups: []string{"ops"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestR76Change(t *testing.T) {
	for name, c := range map[string]struct {
		before     string
		permission acl.Permission
		actors     string
		groups     string
		after      string
		err        string
	}{
		"read is given":                    {"", acl.Read, "a", "", "chef:a=viewer", ""},
		"to a group":                       {"", acl.Read, "", "g", "group:g=viewer", ""},
		"to other members":                 {"", acl.Read, "token:ci spiffe://d/x allAuthenticated chef:token:ci", "", "token:ci=viewer spiffe://d/x=viewer allAuthenticated=viewer chef:token:ci=viewer", ""},
		"an update lifts":                  {"chef:a=viewer", acl.Update, "a", "", "chef:a=editor", ""},
		"grant lifts":                      {"chef:a=editor", acl.Grant, "a", "", "chef:a=owner", ""},
		"what is given stays":              {"chef:a=owner chef:b=editor", acl.Create, "a b", "", "chef:a=owner chef:b=editor", ""},
		"a role beside the ladder stays":   {"chef:a=committer", acl.Delete, "a", "", "chef:a=committer,editor", ""},
		"and reads when editor is taken":   {"chef:a=committer,editor", acl.Delete, "", "", "chef:a=committer", ""},
		"read is taken":                    {"chef:a=viewer chef:b=viewer", acl.Read, "b", "", "chef:b=viewer", ""},
		"an update is taken, read stays":   {"chef:a=editor", acl.Update, "", "", "chef:a=viewer", ""},
		"grant is taken, the rest stays":   {"group:g=owner", acl.Grant, "", "", "group:g=editor", ""},
		"read of one who changes":          {"chef:a=editor", acl.Read, "", "", "", "a has create, update and delete"},
		"read of an owner":                 {"group:g=owner", acl.Read, "", "", "", "the group g has grant, which includes read"},
		"update of an owner":               {"chef:a=owner", acl.Update, "", "", "", "a has grant, which includes update"},
		"read by a role beside the ladder": {"chef:a=committer,viewer", acl.Read, "", "", "", "a reads by roles/understudy.committer"},
	} {
		t.Run(name, func(t *testing.T) {
			before := bindings(c.before)
			entry := acl.Entry{Actors: strings.Fields(c.actors), Groups: strings.Fields(c.groups)}
			got, err := before.With(c.permission, entry)
			if diff := cmp.Diff(bindings(c.before), before); diff != "" {
				t.Errorf("the bindings before have changed: %s", diff)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(bindings(c.after), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			// What was put is what is shown.
			shown := acl.Of(got)[c.permission]
			if len(shown.Actors) != len(entry.Actors) || len(shown.Groups) != len(entry.Groups) {
				t.Errorf("the entry is %+v, and %+v was put", shown, entry)
			}
		})
	}
}
