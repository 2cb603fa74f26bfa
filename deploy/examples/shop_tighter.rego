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
	claims.exp > time.now_ns() / 1000000000
	some role in claims.roles
	http.method in data.permissions[role][route]
}

allow := {"allowed": true} if {
	input.parsed_path[0] == "internal"
	some name in data.callers[input.parsed_path[1]]
	input.attributes.source.principal == sprintf("spiffe://cluster.local/ns/shop/sa/%s", [name])
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

plan := {"x-plan": claims.plan} if claims.plan != "free"

http := input.attributes.request.http

route := concat("/", array.slice(input.parsed_path, 0, 2))

claims := io.jwt.decode(substring(http.headers.authorization, count("Bearer "), -1))[1]
