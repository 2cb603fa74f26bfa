# The policy of the tests: the first part of the path says what it decides.
package envoy.authz

default allow := false

part := input.parsed_path[0]

allow if part == "public"

# All that an allow may say.
allow := {
	"allowed": true,
	"headers": {"x-user": "alice", "x-several": ["one", "two"]},
	"request_headers_to_remove": ["x-secret"],
	"response_headers_to_add": {"x-decided": "yes", "x-more": ["a", "b"]},
	"query_parameters_to_set": {"page": "2", "tag": ["a", "b"]},
	"query_parameters_to_remove": ["debug"],
	"dynamic_metadata": {"tenant": "acme"},
} if part == "edited"

allow := {
	"allowed": false,
	"http_status": 302,
	"headers": {"location": "https://login.example/", "set-cookie": ["a=1; Path=/", "b=2; Path=/"]},
} if part == "login"

allow := {"allowed": false, "http_status": 401, "body": "Who are you?", "headers": {"www-authenticate": "Bearer"}} if part == "unknown"

allow := {"allowed": false, "body": concat("", [b | some _ in numbers.range(1, 4096); b := "0123456789abcdef"])} if part == "large"

# A header that HTTP does not know: Envoy's own judgement of edits is asked.
allow := {"allowed": true, "headers": {"x-two words": "x"}} if part == "invalid"

# What the policy sees, returned to the client.
allow := {"allowed": false, "http_status": 403, "body": json.marshal(input)} if part == "input"

# A failure of the policy.
allow := "maybe" if part == "broken"

# A body decides.
allow if {
	part == "orders"
	input.parsed_body.amount < 100
}

# So does the message of a gRPC call.
allow if {
	part == "grpc.health.v1.Health"
	input.parsed_body.service == "shop"
}

# Envoy's network filter asks about a connection: there is no request, but who
# connects, and the name that was asked for.
allow if {
	not input.attributes.request.http
	input.source_principal == "spiffe://cluster.local/ns/shop/sa/web"
	input.attributes.tlsSession.sni == "shop.example"
}

# An evaluation that would take for ever, if nobody ended it.
allow if {
	part == "slow"
	some i in numbers.range(1, 100000)
	some j in numbers.range(1, 100000)
	i * j < 0
}

# Headers that say where a message ends; the path names one.
allow := {"allowed": true, "headers": {input.parsed_path[1]: "35"}} if part == "framed"

allow := {"allowed": true, "response_headers_to_add": {input.parsed_path[1]: "35"}} if part == "framed-answer"
