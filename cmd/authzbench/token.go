package main

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"strings"
)

// algorithm is how the tokens of a policy's traffic are signed.
type algorithm string

const (
	hs256 algorithm = "HS256"
	rs256 algorithm = "RS256"
)

// tokenSize is the length of a token in bytes, or up to three less: base64 has no
// lengths between. It is what tokens of common identity providers have; both algorithms
// get the same size, so that only the signature makes the difference.
const tokenSize = 800

// keys sign tokens. They are made for each run, unless --policies names others.
type keys struct {
	secret string
	rsa    *rsa.PrivateKey
}

// newKeys makes an RSA key of 2048 bits, the usual size for RS256, and a secret of 52
// letters.
func newKeys() (*keys, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("making an RSA key: %w", err)
	}
	return &keys{secret: rand.Text() + rand.Text(), rsa: key}, nil
}

// publicPEM is the public key as policies take it.
func (k *keys) publicPEM() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(&k.rsa.PublicKey)
	if err != nil {
		return "", fmt.Errorf("encoding the public key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

// claims are the content of a token, all that is the same for one user. The ID (jti) is
// not among them: it is written in front of them, at a place that renew knows.
type claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	Expires  int64    `json:"exp"`
	Issued   int64    `json:"iat"`
	Roles    []string `json:"roles"`
	Tenant   string   `json:"tenant"`
	Email    string   `json:"email"`
	Session  string   `json:"session_state"`
	Scope    string   `json:"scope"`
}

const (
	idSize = 18
	// idOffset is where the encoded token ID begins in the encoded payload: the
	// beginning `{"jti":"x` has nine bytes, which are twelve in base64.
	idOffset = 12
)

// token is a signed token, and where its parts are that change. With HS256, a new ID
// needs a new signature; both are written over the old ones, in place:
//
//	header . {"jti":"x<ID>","iss":... . signature
//	          id ----^                   ^---- signature
type token struct {
	text []byte
	// id is where the encoded ID begins, signature where the signature does.
	id, signature int
}

// sign makes a token of tokenSize.
func (k *keys) sign(a algorithm, id [idSize]byte, c claims) (token, error) {
	header := encode([]byte(`{"alg":"` + string(a) + `","typ":"JWT","kid":"authzbench-1"}`))
	signatureSize := base64.RawURLEncoding.EncodedLen(map[algorithm]int{hs256: sha256.Size, rs256: k.rsa.Size()}[a])
	payload, err := payloadOf(id, c, (tokenSize-len(header)-signatureSize-2)/4*3)
	if err != nil {
		return token{}, err
	}
	text := header + "." + encode(payload)
	signature, err := k.signature(a, text)
	if err != nil {
		return token{}, err
	}
	return token{[]byte(text + "." + encode(signature)), len(header) + 1 + idOffset, len(text) + 1}, nil
}

// payloadOf pads the scope until the payload has the size.
func payloadOf(id [idSize]byte, c claims, size int) ([]byte, error) {
	for {
		fields, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		payload := append([]byte(`{"jti":"x`), id[:]...)
		payload = append(append(payload, `",`...), fields[1:]...)
		missing := size - len(payload)
		if missing <= 0 {
			return payload, nil
		}
		c.Scope += strings.Repeat(" openid profile read:orders", missing/27+1)[:missing]
	}
}

// signature signs `header.payload` (RFC 7515, HMAC or PKCS #1 v1.5).
func (k *keys) signature(a algorithm, text string) ([]byte, error) {
	if a == hs256 {
		mac := hmac.New(sha256.New, []byte(k.secret))
		mac.Write([]byte(text))
		return mac.Sum(nil), nil
	}
	digest := sha256.Sum256([]byte(text))
	return rsa.SignPKCS1v15(rand.Reader, k.rsa, crypto.SHA256, digest[:])
}

// encode is base64url without padding, as JSON Web Tokens have it (RFC 7515, section
// 2).
func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// renewer gives tokens new IDs, so that no two requests have the same token. It keeps
// the state of the HMAC, since making one for each request would cost more than the
// signature. It is for one goroutine.
type renewer struct {
	mac hash.Hash // nil if tokens are not signed anew
	sum []byte
}

func newRenewer(k *keys, a algorithm) *renewer {
	if a != hs256 {
		return &renewer{}
	}
	return &renewer{mac: hmac.New(sha256.New, []byte(k.secret))}
}

// renew appends a copy of a token with another ID. An HS256 token is signed anew;
// the signature of an RS256 token is not right any more.
func (r *renewer) renew(dst []byte, t token, id [idSize]byte) []byte {
	begin := len(dst)
	dst = append(dst, t.text...)
	copied := dst[begin:]
	base64.RawURLEncoding.Encode(copied[t.id:], id[:])
	if r.mac != nil {
		r.mac.Reset()
		r.mac.Write(copied[:t.signature-1])
		r.sum = r.mac.Sum(r.sum[:0])
		base64.RawURLEncoding.Encode(copied[t.signature:], r.sum)
	}
	return dst
}
