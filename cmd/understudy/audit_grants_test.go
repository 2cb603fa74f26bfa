package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"understudy/admin/audit"
)

// bindings is the body of a setIamPolicy that gives each role to members :: role → members.
func bindingsOf(t *testing.T, byRole map[string][]string) string {
	t.Helper()
	list := []any{}
	for role, members := range byRole {
		list = append(list, map[string]any{"role": "roles/understudy." + role, "members": members})
	}
	body, err := json.Marshal(map[string]any{"policy": map[string]any{"bindings": list}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// must is send that has to succeed.
func (a *auditing) must(method, path, body string) {
	a.Helper()
	if code, answer := a.send(method, path, body); code != http.StatusOK && code != http.StatusCreated {
		a.Fatalf("%s %s answered %d: %v", method, path, code, answer)
	}
}

// TestGrantsAreRecorded: who was given what, by the API and by Chef's access control lists; also
// what is taken back at once.
func TestGrantsAreRecorded(t *testing.T) {
	const l1 = "/v1/projects/p1/locations/l1:setIamPolicy"
	a := startAuditing(t, "", "required")
	for _, c := range []struct{ method, path, body, deltas string }{
		{"POST", l1, bindingsOf(t, map[string][]string{"owner": {"token:bob"}}), "action=ADD member=token:bob role=roles/understudy.owner"},
		{"POST", l1, bindingsOf(t, map[string][]string{"viewer": {"token:bob", "group:https://idp#staff"}}), "action=REMOVE member=token:bob role=roles/understudy.owner\n" +
			"action=ADD member=group:https://idp#staff role=roles/understudy.viewer\naction=ADD member=token:bob role=roles/understudy.viewer"},
		{"POST", l1, bindingsOf(t, map[string][]string{"viewer": {"group:https://idp#staff", "token:bob"}}), ""}, // as it is
		{"POST", l1, bindingsOf(t, nil), "action=REMOVE member=group:https://idp#staff role=roles/understudy.viewer\naction=REMOVE member=token:bob role=roles/understudy.viewer"},
		{"PUT", "/policy_groups/l1", "{}", ""},
		{"PUT", "/policy_groups/l1/_acl/grant", `{"grant":{"actors":["token:bob"],"groups":[]}}`, "action=ADD member=token:bob role=roles/understudy.owner"},
		{"PUT", "/policy_groups/l1/_acl/grant", `{"grant":{"actors":[],"groups":[]}}`, "action=REMOVE member=token:bob role=roles/understudy.owner\naction=ADD member=token:bob role=roles/understudy.editor"},
	} {
		a.must(c.method, c.path, c.body)
		a.want(c.path+" "+c.body, a.next(), map[string]string{audit.AttributeBindingDeltas: c.deltas, audit.AttributeOutcome: "OK", audit.AttributeParts: ""})
	}
	// What was refused, or was only validated, has given nothing to anybody.
	if code, _ := a.send("POST", l1, `{"policy":{"etag":"bm9uZQ==","bindings":[{"role":"roles/understudy.owner","members":["token:bob"]}]}}`); code != http.StatusConflict {
		t.Errorf("bindings of another etag answered %d", code)
	}
	a.want("another etag", a.next(), map[string]string{audit.AttributeBindingDeltas: "", audit.AttributeOutcome: "ABORTED"})
}

// TestNoGrantHidesBehindMany: of a change of many bindings each one is in the log.
func TestNoGrantHidesBehindMany(t *testing.T) {
	var members []string
	for i := range 1499 {
		members = append(members, fmt.Sprintf("token:%s-%04d", strings.Repeat("x", 500), i))
	}
	members = append(members, "token:bob")
	a := startAuditing(t, "", "required")
	a.must("POST", "/v1/projects/p1:setIamPolicy", bindingsOf(t, map[string][]string{"owner": members}))
	var found []string
	const parts = 60
	for part := 1; part <= parts; part++ {
		event := a.next()
		a.want("a part", event, map[string]string{
			audit.AttributePart: fmt.Sprint(part), audit.AttributeParts: fmt.Sprint(parts), audit.AttributePrincipal: "token:ann", audit.AttributeResource: "projects/p1",
		})
		for line := range strings.Lines(event[audit.AttributeBindingDeltas]) {
			member, ok := strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(line), " role=roles/understudy.owner"), "action=ADD member=")
			if !ok {
				t.Errorf("a delta is %q", line)
			}
			found = append(found, member)
		}
	}
	slices.Sort(found)
	slices.Sort(members)
	if !slices.Equal(found, members) {
		t.Errorf("the events name %d members of %d", len(slices.Compact(found)), len(members))
	}
	a.none()
}

// TestNoManyGrantsWithoutTheirEvents: with --audit=required many bindings are set if there is a
// place for each of their events, and otherwise none is.
func TestNoManyGrantsWithoutTheirEvents(t *testing.T) {
	t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "8")
	a := startAuditing(t, "", "required")
	var members []string
	for i := range 25*6 + 1 {
		members = append(members, fmt.Sprintf("token:m%d", i))
	}
	const path = "/v1/projects/p1/locations/l1:setIamPolicy"
	if code, answer := a.send("POST", path, bindingsOf(t, map[string][]string{"viewer": members})); code != http.StatusServiceUnavailable {
		t.Errorf("a change with more events than places answered %d: %v, want 503", code, answer)
	}
	if _, answer := a.send("GET", "/v1/projects/p1/locations/l1:getIamPolicy", ""); answer["bindings"] != nil {
		t.Errorf("what was refused has set %v", answer)
	}
	a.must("POST", path, bindingsOf(t, map[string][]string{"viewer": members[1:]}))
	for range 6 {
		a.want("a part", a.next(), map[string]string{audit.AttributeParts: "6", audit.AttributeOutcome: "OK"})
	}
	a.none()
}

// TestChangesOfAConfigAreRecorded: the names of the fields, and the values of those that say who
// may make what live.
func TestChangesOfAConfigAreRecorded(t *testing.T) {
	const config, group = "/v1/projects/p1/locations/l1/config", "/policy_groups/l1"
	a := startAuditing(t, "", "required")
	for _, c := range []struct{ method, path, body, changes string }{
		{"PATCH", config, `{"commitRequirements":{"requireDifferentCommitter":true,"minRequestCount":7777}}`,
			"field=commit_requirements.min_request_count\nafter=true before=false field=commit_requirements.require_different_committer"},
		{"PATCH", config, `{"commitRequirements":{"requireDifferentCommitter":false}}`, ""}, // no field is populated
		{"PATCH", config + "?updateMask=commitRequirements.requireDifferentCommitter", `{}`,
			"after=false before=true field=commit_requirements.require_different_committer"},
		{"PATCH", config + "?updateMask=*", `{"nextLocation":"projects/p1/locations/l2","commitRequirements":{"requireDifferentCommitter":true,"maxFailedRatio":0.5}}`,
			"after=projects/p1/locations/l2 field=next_location\nfield=commit_requirements.min_request_count\n" +
				"field=commit_requirements.max_failed_ratio\nafter=true before=false field=commit_requirements.require_different_committer"},
		{"PUT", group, `{"next_group_name":"l3"}`, "after=projects/p1/locations/l3 before=projects/p1/locations/l2 field=next_location"},
		{"DELETE", group, "", "before=projects/p1/locations/l3 field=next_location\nfield=commit_requirements.max_failed_ratio\n" +
			"after=false before=true field=commit_requirements.require_different_committer"},
	} {
		a.must(c.method, c.path, c.body)
		event := a.next()
		a.want(c.method+" "+c.path+" "+c.body, event, map[string]string{audit.AttributeChanges: c.changes, audit.AttributeOutcome: "OK"})
		if strings.Contains(fmt.Sprint(event), "7777") {
			t.Errorf("an event has the value of a requirement: %v", event)
		}
	}
	a.none()
}
