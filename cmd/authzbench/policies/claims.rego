# The same as rbac by the claims that Envoy's jwt_authn has verified, in the metadata of
# the request.
package envoy.authz

import input.attributes.request.http

default allow := false

allow if {
	claims.exp > time.now_ns() / 1000000000
	some role in claims.roles
	some permission in data.permissions[role]
	permission.resource == input.parsed_path[2]
	http.method in permission.methods
}

claims := input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload
