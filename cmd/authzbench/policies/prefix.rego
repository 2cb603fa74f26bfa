# By method and the beginning of the path alone.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	http.method == "GET"
	startswith(http.path, "/api/v1/catalog/")
}

allow if {
	http.method in {"GET", "POST"}
	startswith(http.path, "/api/v1/orders/")
}

allow if {
	http.method == "GET"
	some prefix in ["/api/v1/prices/", "/api/v1/stock/", "/api/v1/reviews/", "/api/v1/search/"]
	startswith(http.path, prefix)
}
