package policyfile

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"understudy/admin/access"
)

// A route without needs would be refused, and needs without a route protect nothing.
func TestR77EveryRouteHasItsNeeds(t *testing.T) {
	all := make(map[string]bool)
	for path, methods := range routes {
		for method := range methods {
			route := method + " " + path
			all[route] = true
			if _, known := needs[route]; !known {
				t.Errorf("%s has no needs", route)
			}
		}
	}
	words := map[string]bool{"create": true, "read": true, "update": true, "delete": true, "grant": true}
	for route, rows := range needs {
		if !all[route] {
			t.Errorf("there is no route %s", route)
		}
		if len(rows) == 0 && route != "GET /clients/:actor" && route != "GET /groups/:actor" {
			t.Errorf("%s needs nothing", route)
		}
		for _, n := range rows {
			if !words[n.chef] || !access.RoleOwner.Has(n.permission) {
				t.Errorf("%s needs %+v, which nobody has", route, n)
			}
		}
	}
}

// A name in a path is one segment of a resource, whatever it is.
func TestResourcesAreNotInjected(t *testing.T) {
	for _, bad := range []string{"dev/policies/web", "..", "a?b", "", "dev%2Fx", "-"} {
		n := need{on: onGroupPolicy}
		got, ok := n.resource("p/locations/x", map[string]string{":group": bad, ":policy": bad})
		if !ok || strings.Count(got, "/") != 5 {
			t.Errorf("%q: got %s, %v", bad, got, ok)
		}
	}
}

// permissions.md shows the table.
func TestNeedsAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	for route, rows := range needs {
		if !strings.HasPrefix(route, "GET /polic") && !strings.Contains(route, " /polic") || strings.Contains(route, "_acl") {
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer(":group", "G", ":policy", "N", ":revision", "R").Replace(path)
		line := ""
		for l := range strings.Lines(string(readme)) {
			if strings.HasPrefix(l, "| ") && strings.Contains(strings.Split(l, "|")[1], "`"+method+" "+path+"`") {
				line = l
			}
		}
		for _, n := range rows {
			on := strings.NewReplacer(":group", "G", ":policy", "N", ":next", "NEXT", ":each", "N", ":active", "G").Replace(n.on)
			if on == "" {
				on = "the project"
			}
			want := fmt.Sprintf("`%s` on %s", strings.TrimPrefix(string(n.permission), "understudy."), on)
			if !strings.Contains(strings.ReplaceAll(line, "`"+on+"`", on), want) {
				t.Errorf("permissions.md: the row of %s %s does not say %s: %s", method, path, want, line)
			}
		}
	}
}
