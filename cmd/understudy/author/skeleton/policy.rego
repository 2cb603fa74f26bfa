# METADATA
# title: My policy
package envoy.authz

# Whatever no rule allows is denied.
default allow := {"allowed": false, "http_status": 403, "body": "no rule allows this request\n"}

# Anybody may read what is public.
allow if {
	http.method in ["GET", "HEAD"]
	input.parsed_path[0] in data.public
}

# A user whose token Envoy has verified may use what is below their own name.
allow if input.parsed_path == ["users", claims.sub]

http := input.attributes.request.http

# claims are those of the token, as Envoy's filter jwt_authn passes them on.
claims := input.attributes.metadata_context.filter_metadata["envoy.filters.http.jwt_authn"].jwt_payload
