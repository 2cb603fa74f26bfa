package authentication

import (
	"crypto/x509"
	"strings"
	"unicode"
	"unicode/utf8"

	"understudy/admin/access"
)

// The refusals of certificates that TLS has taken.
var (
	manyURIs  = refusal{outcomeMalformed, "The client certificate has a SPIFFE ID and another URI beside it; it has to have one (X509-SVID, section 2)."}
	noName    = refusal{outcomeMalformed, "The client certificate has neither a SPIFFE ID nor a DNS name nor a common name."}
	unfitName = refusal{outcomeMalformed, "The name in the credentials is longer than 512 bytes, or has characters that cannot be printed, so that no binding could name it."}
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
	p := access.Principal{Member: member, Method: access.MethodCertificate}
	return Identity{Principal: p, Expires: c.NotAfter}, nil
}

// maxMember bounds a member of a binding, in bytes.
const maxMember = 512

// nameable reports whether a binding can name a member.
func nameable(member string) bool {
	return len(member) <= maxMember && utf8.ValidString(member) &&
		!strings.ContainsFunc(member, func(r rune) bool { return !unicode.IsPrint(r) })
}
