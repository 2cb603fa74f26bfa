# In the manner of the examples that one starts with: who one is stands in the
# token, what one wants in the path and the body, and the answer is an object.
package envoy.authz

import input.attributes.request.http

default allow := {"allowed": false, "http_status": 403, "body": "You may not do that."}

allow := {"allowed": true, "headers": {"x-user": token.payload.sub}} if {
	valid
	permitted
}

allow := {"allowed": false, "http_status": 401, "body": "Your session has ended."} if not valid

valid if time.now_ns() / 1000000000 < token.payload.exp

permitted if {
	http.method == "GET"
	token.payload.roles[_] == "viewer"
	input.parsed_path[2] != "reports"
}

permitted if {
	token.payload.roles[_] == "admin"
}

permitted if {
	http.method == "POST"
	token.payload.roles[_] == "clerk"
	["api", "v1", "orders", _] = input.parsed_path
	input.parsed_body.quantity <= 10
}

token := {"payload": payload} if {
	[_, encoded] := split(http.headers.authorization, " ")
	[_, body, _] := split(encoded, ".")
	payload := json.unmarshal(base64url.decode(body))
}
