# An access list of 200 rules over data of 10,000: the role of a rule is looked for in the roles of the
# token first, then its resource and its methods. The tenant has to be one that is not suspended.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	some rule in data.rules
	rule.role in claims.roles
	rule.resource == input.parsed_path[2]
	http.method in rule.methods
	not data.accounts[claims.sub].suspended
	claims.exp > time.now_ns() / 1000000000
}

claims := payload if {
	startswith(http.headers.authorization, "Bearer ")
	[_, payload, _] := io.jwt.decode(substring(http.headers.authorization, 7, -1))
}
