# In the form of the quick start of opa-envoy-plugin: the token is verified into an object, and methods, roles,
# patterns of paths and a field of the body decide.
package envoy.authz

import input.attributes.request.http as http_request

default allow := false

allow if {
	token_is_valid
	action_is_allowed
}

token_is_valid if {
	token.valid
	now := time.now_ns() / 1000000000
	token.payload.iat <= now
	now < token.payload.exp
}

action_is_allowed if {
	http_request.method == "GET"
	token.payload.roles[_] == "viewer"
	glob.match("/api/v1/{catalog,prices,stock,reviews,search}/*", ["/"], http_request.path)
}

action_is_allowed if {
	http_request.method == "GET"
	token.payload.roles[_] == "admin"
	glob.match("/api/v1/**", ["/"], http_request.path)
}

action_is_allowed if {
	http_request.method == "POST"
	token.payload.roles[_] == "clerk"
	glob.match("/api/v1/orders/*", ["/"], http_request.path)
	lower(input.parsed_body.article) != token.payload.sub
}

token := {"valid": valid, "payload": payload} if {
	[_, encoded] := split(http_request.headers.authorization, " ")
	[valid, _, payload] := io.jwt.decode_verify(encoded, {"secret": data.secret, "aud": "shop"})
}
