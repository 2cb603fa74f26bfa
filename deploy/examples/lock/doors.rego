# Who may come in where: the second recipe of the lock.
package shop.doors

default allow := {"allowed": false, "http_status": 403, "body": "You may not come in here."}

# Everyone may look at the shop window.
allow := true if {
	input.parsed_path[0] == "public"
	input.attributes.request.http.method == "GET"
}

# The staff may do anything, by the name on their certificate.
allow := {"allowed": true, "headers": {"x-door": "staff"}} if {
	startswith(input.attributes.source.principal, "spiffe://cluster.local/ns/shop/")
}
