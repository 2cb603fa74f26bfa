# What a tenant may use, as sets that rules make, and what every request of it needs.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	input.parsed_path[2] in resources
	every need in data.tenants[claims.tenant].needs { need in claims.roles }
}

resources contains name if some name in data.tenants[claims.tenant].resources

resources contains name if {
	http.method == "GET"
	some name in data.common
}

claims := payload if {
	startswith(http.headers.authorization, "Bearer ")
	[_, payload, _] := io.jwt.decode(substring(http.headers.authorization, 7, -1))
}
