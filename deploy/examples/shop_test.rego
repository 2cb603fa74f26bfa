# What the shop must go on to allow and deny, by its policy as by the experiment:
#   understudy test deploy/examples/policy.yaml deploy/examples/experiment.yaml
package envoy.authz_test

import data.envoy.authz

test_everyone_sees_the_shop_window if {
	authz.allow.allowed with input as request("GET", "/public/catalog")
}

test_nobody_writes_on_it if {
	not authz.allow.allowed with input as request("POST", "/public/catalog")
}

test_services_call_each_other if {
	authz.allow.allowed with input as from("spiffe://cluster.local/ns/shop/sa/checkout")
}

test_strangers_are_told_why_not if {
	decision := authz.allow with input as from("spiffe://cluster.local/ns/other/sa/checkout")
	decision.http_status == 403
	decision.reason != ""
}

test_roles[name] if {
	some name, want in {
		"customer GET /api/orders/7": true,
		"customer DELETE /api/orders/7": false,
		"support POST /api/refunds": true,
	}
	[role, method, path] := split(name, " ")
	decision := authz.allow with input as request(method, path)
		with authz.claims as {"sub": "ann", "roles": [role], "exp": 99999999999}
	decision.allowed == want
}

# A claim of another type than the policy expects is no reason to let anybody in.
test_claims_of_other_types_are_denied[name] if {
	some name, wrong in {
		"an exp that is a text": {"exp": "never"},
		"an exp that is a list": {"exp": [99999999999]},
		"a sub that is a number": {"sub": 7},
		"roles that are an object": {"roles": {"role": "customer"}},
	}
	decision := authz.allow with input as request("GET", "/api/orders/7")
		with authz.claims as object.union({"sub": "ann", "roles": ["customer"], "exp": 99999999999}, wrong)
	not decision.allowed
}

test_a_plan_of_another_type_is_no_header if {
	decision := authz.allow with input as request("GET", "/api/orders/7")
		with authz.claims as {"sub": "ann", "roles": ["customer"], "exp": 99999999999, "plan": 7}
	decision.allowed
	decision.headers == {"x-user": "ann"}
}

request(method, path) := {
	"parsed_path": split(trim_left(path, "/"), "/"),
	"attributes": {"request": {"http": {"method": method, "path": path, "headers": {}}}},
}

from(principal) := object.union(request("GET", "/internal/stock"), {"attributes": {"source": {"principal": principal}}})
