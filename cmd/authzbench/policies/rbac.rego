# Roles of the token, looked up in the data; the token must not have expired. The
# mesh has verified it.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	claims.exp > time.now_ns() / 1000000000
	some role in claims.roles
	some permission in data.permissions[role]
	permission.resource == input.parsed_path[2]
	http.method in permission.methods
}

claims := payload if {
	[_, payload, _] := io.jwt.decode(bearer)
}

bearer := substring(http.headers.authorization, 7, -1) if {
	startswith(http.headers.authorization, "Bearer ")
}
