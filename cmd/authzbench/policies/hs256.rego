# The token is verified here (HS256), with its expiry; then its roles decide.
package envoy.authz

import input.attributes.request.http

default allow := false

allow := {"allowed": true, "headers": {"x-user": claims.sub, "x-tenant": claims.tenant}} if {
	some role in claims.roles
	http.method in data.permissions[role][_].methods
	data.permissions[role][_].resource == input.parsed_path[2]
}

claims := payload if {
	startswith(http.headers.authorization, "Bearer ")
	[valid, _, payload] := io.jwt.decode_verify(
		substring(http.headers.authorization, 7, -1),
		{"secret": data.secret, "alg": "HS256", "iss": "https://issuer.example.com", "aud": "shop"},
	)
	valid
}
