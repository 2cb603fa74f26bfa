# An access list of 200 rules over data of 10,000: a rule applies to a role of the caller's account, a resource, and
# a method or all. The account must not be suspended.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	some role in data.accounts[claims.sub].roles
	some rule in data.rules
	rule.role == role
	rule.method in {"*", http.method}
	rule.resource == input.parsed_path[2]
	not data.accounts[claims.sub].suspended
	claims.exp > time.now_ns() / 1000000000
}

claims := payload if {
	startswith(http.headers.authorization, "Bearer ")
	[_, payload, _] := io.jwt.decode(substring(http.headers.authorization, 7, -1))
}
