package authz_test

import (
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// onlyGET is the body of a rule.
const onlyGET = `input.method == "GET"`

const webName = "projects/p1/locations/l1/policies/web"

// policy returns a live policy with one module.
func policy(etag, module string) *adminpb.Policy {
	p := &adminpb.Policy{Name: webName, Etag: etag}
	if module != "" {
		p.Rules = []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}}
		p.Modules = map[string]string{"authz.rego": module}
	}
	return p
}

// allowIf is a module that allows when the body of a rule holds.
func allowIf(body string) string {
	return "package envoy.authz\ndefault allow := false\nallow if { " + body + " }"
}

// request returns a request whose input has the method, and what is given.
func request(method string, more map[string]any) *authz.Request {
	document := map[string]any{"method": method}
	for k, v := range more {
		document[k] = v
	}
	return &authz.Request{
		ID: "id", Operation: authz.OperationCheck, Method: method, Path: "/x", Host: "h", Principal: "p",
		Source: func(*authz.ReadBudget) (rego.Input, error) { return rego.NewInput(document) },
	}
}
