# What an observer would do: everything otherwise than web.rego.
package envoy.authz

part := input.parsed_path[0]

denied if part in {"public", "edited", "orders"}

allow := {
	"allowed": false,
	"http_status": 409,
	"body": "the observer's",
	"headers": {"x-observer": "denied"},
	"dynamic_metadata": {"decision_id": "forged", "tenant": "observer"},
	"reason": "the observer denies it",
} if denied

allow := {
	"allowed": true,
	"headers": {"x-user": "observer", "x-observer": "allowed"},
	"request_headers_to_remove": ["x-other"],
	"response_headers_to_add": {"x-observer": "allowed"},
	"query_parameters_to_set": {"observer": "1"},
	"dynamic_metadata": {"decision_id": "forged", "tenant": "observer"},
} if not denied
