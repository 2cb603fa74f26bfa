# Fails at some paths: it is undefined there, or sets what frames a message.
package envoy.authz

part := input.parsed_path[0]

allow if part == "public"

allow := false if part == "private"

allow := {"allowed": true, "headers": {"content-length": "5"}} if part == "framed"

allow := {"allowed": true, "response_headers_to_add": {"content-length": "3"}} if part == "answered"
