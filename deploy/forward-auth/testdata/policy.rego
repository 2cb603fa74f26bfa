# Each path asks for one thing that a proxy has to do with a decision.
package envoy.authz

default allow := false

allow if public

# A policy that reads the header X-User would believe its client.
allow := {"allowed": true, "headers": {"x-user": "alice"}} if path == "/user"

public if startswith(path, "/public/")

public if path in {"/", "/.well-known/x", "/uploads"}

allow := {"allowed": false, "http_status": to_number(parts[2]), "body": "not kept", "headers": {
	"location": "/login?next=1",
	"set-cookie": ["a=1; Path=/", "b=2; Path=/"],
	"retry-after": "7",
	"www-authenticate": "Bearer",
}} if {
	parts := split(path, "/")
	parts[1] == "denied"
}

path := split(input.attributes.request.http.path, "?")[0]
