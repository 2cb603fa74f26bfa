package input

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// jwtAuthn is the namespace that Envoy's jwt_authn filter alone writes to.
const jwtAuthn = "envoy.filters.http.jwt_authn"

// subject returns the claims iss and sub of the payload that Envoy's jwt_authn filter has put below a key; empty if
// there is no such payload, or no sub in it.
func (c *Check) subject(key string) (issuer, subject string) {
	if !at.metadata.has(c) {
		return "", ""
	}
	var metadata corev3.Metadata
	if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(at.metadata.of(c).text), &metadata) != nil {
		return "", ""
	}
	claims := metadata.GetFilterMetadata()[jwtAuthn].GetFields()[key].GetStructValue().GetFields()
	if subject = claims["sub"].GetStringValue(); subject == "" {
		return "", ""
	}
	return claims["iss"].GetStringValue(), subject
}
