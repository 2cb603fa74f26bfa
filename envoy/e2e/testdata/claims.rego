# Decides by the claims that jwt_authn has verified, and by the metadata of the route.
package envoy.authz

default allow := false

claims := input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].claims

allow if {
	input.parsed_path[0] == "admin"
	"admin" in claims.realm.roles
}

allow if {
	input.parsed_path[0] == "owned"
	claims.sub == "alice"
	input.attributes.routeMetadataContext.filterMetadata.shop.owner == "catalog"
}
