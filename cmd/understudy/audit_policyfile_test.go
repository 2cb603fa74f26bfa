package main

import (
	"testing"

	"understudy/admin/audit"
	"understudy/admin/policyfile"
	"understudy/admin/policyfile/signature/signaturetest"
)

// TestChangesOfThePolicyfileAPIAreRecorded: each of its changes, and what fails.
func TestChangesOfThePolicyfileAPIAreRecorded(t *testing.T) {
	a := startAuditing(t, "", "required")
	const group, policy = "/policy_groups/l1", "projects/p1/locations/l1/policies/"
	for _, c := range []struct {
		method, path, body string
		status             int
		route, resource    string
		outcome, reason    string
	}{
		{"PUT", group, "{}", 201, "PUT /policy_groups/:group", "projects/p1/locations/l1", "OK", ""},
		{"PUT", group + "/policies/web", `{"name":"` + marker + `"}`, 400, "PUT /policy_groups/:group/policies/:policy", policy + "web", "INVALID_ARGUMENT", ""},
		{"POST", group + "/policies/web", `{"revision_id":"1"}`, 404, "POST /policy_groups/:group/policies/:policy", policy + "web", "NOT_FOUND", "RESOURCE_NOT_FOUND"},
		{"DELETE", group + "/policies/web", "", 404, "DELETE /policy_groups/:group/policies/:policy", policy + "web", "NOT_FOUND", "RESOURCE_NOT_FOUND"},
		{"DELETE", "/policies/web", "", 404, "DELETE /policies/:policy", "projects/p1/locations/global/policies/web", "NOT_FOUND", "RESOURCE_NOT_FOUND"},
		{"POST", group + "/promote", "{}", 400, "POST /policy_groups/:group/promote", "projects/p1/locations/l1", "INVALID_ARGUMENT", ""},
		{"DELETE", group, "", 200, "DELETE /policy_groups/:group", "projects/p1/locations/l1", "OK", ""},
	} {
		code, answer := a.send(c.method, c.path, c.body)
		if code != c.status {
			t.Errorf("%s %s answered %d, want %d: %v", c.method, c.path, code, c.status, answer)
		}
		a.want(c.route, a.next(), map[string]string{
			audit.AttributeAPI: "policyfile", audit.AttributeMethod: c.route, audit.AttributeResource: c.resource, audit.AttributeOutcome: c.outcome, audit.AttributeReason: c.reason,
		})
	}
	a.send("GET", "/policy_groups", "")
	a.none()
}

// TestCallsOfChefAreRecorded: signed calls, each once, also those of access control lists, which
// are bindings.
func TestCallsOfChefAreRecorded(t *testing.T) {
	alice, bob := signaturetest.Key(), signaturetest.NewKey(2048)
	a := startAuditing(t, "", "required", func(c *config) {
		c.chefKeys = []string{"alice=" + signaturetest.PublicFile(t, alice), "bob=" + signaturetest.PublicFile(t, bob)}
		c.owners = append(c.owners, "chef:alice")
	})
	owner, guest := signer{t, a.running, "alice", alice}, signer{t, a.running, "bob", bob}
	web := sealed(t, `"name":"web","run_list":[],"cookbook_locks":{},"default_attributes":{"note":"`+marker+`"}}`)
	db := sealed(t, `"name":"db","run_list":[],"cookbook_locks":{}}`)
	const (
		location, names = "projects/p1/locations/l1", "projects/p1/locations/global"
		active          = "/policy_groups/l1/policies/web"
		read            = `{"read":{"actors":["bob"],"groups":["https://idp#staff"]}}`
		grant           = `{"grant":{"actors":["bob"],"groups":[]}}`
	)
	revision := revisionIDOf(t, db)
	for _, c := range []struct {
		by                         signer
		method, path, body         string
		status                     int
		route, resource, operation string
	}{
		{owner, "PUT", "/policy_groups/l1", `{"next_group_name":"l2"}`, 201, "/policy_groups/:group", location, ""},
		{guest, "PUT", active, web, 403, "/policy_groups/:group/policies/:policy", location + "/policies/web", ""},
		{owner, "PUT", active, web, 201, "/policy_groups/:group/policies/:policy", location + "/policies/web", "some"},
		{owner, "POST", "/policies/db/revisions", db, 201, "/policies/:policy/revisions", names + "/policies/db", ""},
		{owner, "POST", "/policy_groups/l1/policies/db", `{"revision_id":"` + revision + `"}`, 201, "/policy_groups/:group/policies/:policy", location + "/policies/db", "some"},
		{owner, "POST", "/policy_groups/l1/promote", `{}`, 200, "/policy_groups/:group/promote", "projects/p1/locations/l2", "some"},
		{owner, "PUT", "/cookbook_artifacts/c/1", `{"name":"c","identifier":"1"}`, 201, "/cookbook_artifacts/:cookbook/:identifier", names + "/artifacts/c/identifiers/1", ""},
		{guest, "PUT", "/policies/web/_acl/grant", grant, 403, "/policies/:policy/_acl/:permission", names + "/policies/web", ""},
		{owner, "PUT", "/policies/web/_acl/read", `{"read":{}}`, 400, "/policies/:policy/_acl/:permission", names + "/policies/web", ""},
		{owner, "PUT", "/policies/web/_acl/read", read, 200, "/policies/:policy/_acl/:permission", names + "/policies/web", ""},
		{owner, "PUT", "/policy_groups/l1/_acl/read", read, 200, "/policy_groups/:group/_acl/:permission", location, ""},
		{guest, "PUT", "/containers/policies/_acl/grant", grant, 403, "/containers/policies/_acl/:permission", names, ""},
		{owner, "PUT", "/containers/policies/_acl/read", read, 200, "/containers/policies/_acl/:permission", names, ""},
		{owner, "PUT", "/containers/policy_groups/_acl/read", read, 200, "/containers/policy_groups/_acl/:permission", "projects/p1", ""},
		{owner, "DELETE", "/cookbook_artifacts/c/1", "", 200, "/cookbook_artifacts/:cookbook/:identifier", names + "/artifacts/c/identifiers/1", ""},
		{owner, "DELETE", active, "", 200, "/policy_groups/:group/policies/:policy", location + "/policies/web", "some"},
		{owner, "DELETE", "/policies/db", "", 200, "/policies/:policy", names + "/policies/db", ""},
		{owner, "DELETE", "/policy_groups/l1", "", 200, "/policy_groups/:group", location, "some"},
	} {
		answer := c.by.must(c.status, c.method, c.path, c.body)
		event := a.next()
		a.want(c.method+" "+c.path+" answered "+answer, event, map[string]string{
			audit.AttributePrincipal: "chef:" + c.by.name, audit.AttributeAuthentication: "chef", audit.AttributeAPI: "policyfile",
			audit.AttributeMethod: c.method + " " + c.route, audit.AttributeResource: c.resource,
			audit.AttributeOutcome: map[int]string{200: "OK", 201: "OK", 400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED"}[c.status],
		})
		if reason := event[audit.AttributeReason]; c.status == 403 && reason != "PERMISSION_DENIED" {
			t.Errorf("%s %s: the event's reason is %q, want PERMISSION_DENIED", c.method, c.path, reason)
		}
		if has := event[audit.AttributeOperation] != ""; has != (c.operation != "") {
			t.Errorf("%s %s: has its event an operation? %t; the event is %v", c.method, c.path, has, event)
		}
	}
	// A sandbox is never stored, and what only asks is not recorded.
	owner.must(201, "POST", "/sandboxes", `{"checksums":{}}`)
	owner.must(200, "GET", "/policies/web/_acl", "")
	signer{t, a.running, "alice", bob}.must(401, "PUT", active, web)
	a.want("a signature of somebody else", a.next(), map[string]string{
		audit.AttributeAPI: "policyfile", audit.AttributeOutcome: "UNAUTHENTICATED", audit.AttributePrincipal: "", audit.AttributeMethod: "",
	})
	a.none()
}

// revisionIDOf is that of a lock.
func revisionIDOf(t *testing.T, lock string) string {
	t.Helper()
	parsed, err := policyfile.Parse([]byte(lock))
	if err != nil {
		t.Fatal(err)
	}
	return parsed.ComputeRevisionID()
}
