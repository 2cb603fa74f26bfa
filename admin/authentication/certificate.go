package authentication

import (
	"crypto/x509"
	"strings"
	"time"

	"understudy/admin/access"
)

// The refusals of certificates that TLS has taken.
var (
	manyURIs           = refusal{outcomeMalformed, "The client certificate has a SPIFFE ID and another URI next to it; it has to have one (X509-SVID, section 2)."}
	noName             = refusal{outcomeMalformed, "The client certificate has neither a SPIFFE ID nor a DNS name nor a common name."}
	expiredCertificate = refusal{outcomeExpired, "The client certificate has expired since the connection was made: get a new one and connect anew."}
	unfitName          = refusal{outcomeMalformed, "The name in the credentials is longer than 512 bytes, or not of the form that a member of a binding has; a SPIFFE ID has to be one by its standard."}
)

// ofCertificate returns who has a certificate that TLS has verified: its SPIFFE ID, else
// cert: and its first DNS name, else cert: and its common name. A connection may be older
// than the end of its certificate.
func ofCertificate(c *x509.Certificate, now time.Time) (Identity, error) {
	if now.After(c.NotAfter) {
		return Identity{}, expiredCertificate
	}
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
