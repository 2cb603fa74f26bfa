# Who may call what in a shop. Envoy has verified the token's signature before
# (its jwt_authn filter), so that here it is only read.
package envoy.authz

# A denial says why; it is the value unless a rule below finds a reason to allow.
default allow := {"allowed": false, "http_status": 403, "body": "You may not do this.", "reason": "no rule allows it"}

# Everyone may look at the shop window.
allow := {"allowed": true} if {
	input.parsed_path[0] == "public"
	http.method == "GET"
}

# Users may do what one of their roles may do. The upstream learns who it is.
allow := {"allowed": true, "headers": {"x-user": claims.sub}} if {
	input.parsed_path[0] == "api"
	known
	some role in claims.roles
	http.method in data.permissions[role][route]
}

# The shop's own services call each other.
allow := {"allowed": true} if {
	input.parsed_path[0] == "internal"
	startswith(input.attributes.source.principal, "spiffe://cluster.local/ns/shop/")
}

http := input.attributes.request.http

route := concat("/", array.slice(input.parsed_path, 0, 2))

# The caller has a token that is not over. Claims may be of any type, and in Rego every text is
# more than every number: an exp of "never" would never be over.
known if {
	is_string(claims.sub)
	is_array(claims.roles)
	is_number(claims.exp)
	claims.exp > time.now_ns() / 1000000000
}

claims := io.jwt.decode(substring(http.headers.authorization, count("Bearer "), -1))[1]
