# Everybody may read some resources; others are for their owner, whose name is in the path, and for admins.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	http.method == "GET"
	input.parsed_path[2] in {"catalog", "orders", "reviews"}
}

allow if claims.sub == input.parsed_path[3]

allow if {
	some role in claims.roles
	role == "admin"
}

claims := payload if {
	startswith(http.headers.authorization, "Bearer ")
	[_, payload, _] := io.jwt.decode(substring(http.headers.authorization, 7, -1))
}
