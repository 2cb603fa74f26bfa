# The shop's policy as it may become. What differs from shop.rego: a service call
# needs a caller that is listed in the data, and paying customers are announced to
# the upstream.
package envoy.authz

default allow := {"allowed": false, "http_status": 403, "body": "You may not do this.", "reason": "no rule allows it"}

allow := {"allowed": true} if {
	input.parsed_path[0] == "public"
	http.method == "GET"
}

allow := {"allowed": true, "headers": object.union({"x-user": claims.sub}, plan)} if {
	input.parsed_path[0] == "api"
	known
	some role in claims.roles
	http.method in data.permissions[role][route]
}

allow := {"allowed": true} if {
	input.parsed_path[0] == "internal"
	listed
}

allow := {"allowed": false, "http_status": 403, "body": "This service may not call that one.", "reason": "the caller is not listed in data.callers"} if {
	input.parsed_path[0] == "internal"
	not listed
}

listed if {
	some name in data.callers[input.parsed_path[1]]
	input.attributes.source.principal == sprintf("spiffe://cluster.local/ns/shop/sa/%s", [name])
}

default plan := {}

plan := {"x-plan": claims.plan} if {
	is_string(claims.plan)
	claims.plan != "free"
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
