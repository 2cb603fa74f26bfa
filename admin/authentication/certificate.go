package authentication

import (
	"crypto/x509"
	"strings"

	"understudy/admin/access"
)

// maxName bounds the name in a certificate, in bytes: that of a SPIFFE ID (SPIFFE-ID,
// section 2.3).
const maxName = 2048

// spiffeScheme begins the URI of a SPIFFE ID.
const spiffeScheme = "spiffe://"

// The refusals of certificates that TLS has taken.
var (
	manyURIs   = refusal{outcomeMalformed, "The client certificate has a SPIFFE ID and another URI beside it; it has to have one (X509-SVID, section 2)."}
	noName     = refusal{outcomeMalformed, "The client certificate has neither a SPIFFE ID nor a DNS name nor a common name."}
	unfitNames = refusal{outcomeMalformed, "The name in the client certificate is longer than 2048 bytes, or not of printable ASCII without spaces."}
)

// ofCertificate returns who has a certificate that TLS has verified: its SPIFFE ID, else
// cert: and its first DNS name, else cert: and its common name.
func ofCertificate(c *x509.Certificate) (Identity, error) {
	member := ""
	for _, uri := range c.URIs {
		if strings.EqualFold(uri.Scheme, "spiffe") {
			if len(c.URIs) > 1 {
				return Identity{}, manyURIs
			}
			member = uri.String()
		}
	}
	switch {
	case member != "":
	case len(c.DNSNames) > 0:
		member = "cert:" + strings.ToLower(c.DNSNames[0])
	case c.Subject.CommonName != "":
		member = "cert:" + c.Subject.CommonName
	default:
		return Identity{}, noName
	}
	if len(member) > maxName || strings.ContainsFunc(member, unprintable) {
		return Identity{}, unfitNames
	}
	p := access.Principal{Member: member, Method: access.MethodCertificate}
	return Identity{Principal: p, Expires: c.NotAfter}, nil
}

// unprintable reports whether a character is outside printable ASCII, or a space.
func unprintable(r rune) bool { return r <= ' ' || r >= 0x7f }
