// Package oidctest is an OpenID Connect issuer for tests. It makes its tokens by hand, so
// that its reading of the specifications is independent of what verifies them.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// failer is a test.
type failer interface {
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Issuer is a server with keys, of which one signs. Its exported fields are set before it
// is asked.
type Issuer struct {
	// URL is the issuer, over http on a loopback address.
	URL string
	// Audience is that of tokens whose claims name none, and the ID of its one client.
	Audience string

	t failer

	mu      sync.Mutex
	keys    []Key
	absent  bool
	down    bool
	bearer  string
	replies map[string]http.HandlerFunc
	asked   map[string]int
	codes   map[string]login
	// Claims are those of the tokens that logins get, next to those that each token has.
	claims map[string]any
}

// Key signs tokens. One of RSA and EC is there.
type Key struct {
	ID  string
	RSA *rsa.PrivateKey
	EC  *ecdsa.PrivateKey
}

// New returns an issuer that answers, with one RSA key.
func New(t failer) *Issuer {
	i := Absent(t)
	i.Start()
	return i
}

// Absent returns an issuer that has an address and ends every connection until Start. It
// holds its port from the first: between letting one go and taking it again, another
// process may take it.
func Absent(t failer) *Issuer {
	i := &Issuer{
		Audience: "understudy", t: t, absent: true,
		replies: map[string]http.HandlerFunc{}, asked: map[string]int{}, codes: map[string]login{}, claims: map[string]any{"sub": "ann"},
	}
	i.Rotate()
	server := httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Start makes an absent issuer answer.
func (i *Issuer) Start() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.absent = false
}

// SetDown makes the issuer answer 503 to everything, or not any more.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// SetBearer makes the issuer ask for a bearer token where its configuration and its keys are;
// empty makes both public again. Other paths take no bearer token.
func (i *Issuer) SetBearer(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bearer = token
}

// SetReply makes h answer a path, nil the issuer itself again.
func (i *Issuer) SetReply(path string, h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.replies[path] = h
}

// SetClaims sets claims of the tokens that logins get.
func (i *Issuer) SetClaims(claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claims = claims
}

// Asked returns how often a path was asked for.
func (i *Issuer) Asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// Rotate replaces all keys by a new RSA key.
func (i *Issuer) Rotate() Key {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatalf("making a key: %v", err)
	}
	key := Key{ID: "key-" + strconv.FormatInt(time.Now().UnixNano(), 36), RSA: private}
	i.SetKeys(key)
	return key
}

// NewEC returns a key of P-256, which no issuer has yet.
func (i *Issuer) NewEC(id string) Key {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatalf("making a key: %v", err)
	}
	return Key{ID: id, EC: private}
}

// SetKeys replaces all keys; the first one signs.
func (i *Issuer) SetKeys(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Key returns the key that signs.
func (i *Issuer) Key() Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[0]
}

// Claims returns those of a good token with changes; nil leaves a claim out.
func (i *Issuer) Claims(changes map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "sub": "ann", "aud": i.Audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for name, value := range changes {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// Token returns a token of the key that signs.
func (i *Issuer) Token(changes map[string]any) string { return i.Key().Sign(i.Claims(changes)) }

// Sign returns a token of the key.
func (k Key) Sign(claims map[string]any) string {
	text, _ := json.Marshal(claims)
	return k.SignText(text)
}

// SignText is Sign of claims that need be no JSON.
func (k Key) SignText(claims []byte) string {
	alg := "RS256"
	if k.EC != nil {
		alg = "ES256"
	}
	return assemble(map[string]any{"alg": alg, "kid": k.ID, "typ": "JWT"}, claims, k.Signature)
}

// Signature signs by RS256 or ES256.
func (k Key) Signature(text []byte) []byte {
	digest := sha256.Sum256(text)
	if k.EC != nil {
		r, s, _ := ecdsa.Sign(rand.Reader, k.EC, digest[:])
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	signature, _ := rsa.SignPKCS1v15(rand.Reader, k.RSA, crypto.SHA256, digest[:])
	return signature
}

// HMAC signs by HS256 with a secret.
func HMAC(secret []byte) func([]byte) []byte {
	return func(text []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(text)
		return mac.Sum(nil)
	}
}

// PublicPEM is the public key as issuers publish it: what an alg confusion takes as a
// secret.
func (k Key) PublicPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: rsaPublic(k.RSA)})
}

// Assemble returns a token (JWS Compact Serialization, RFC 7515, section 7.1).
func Assemble(header, claims map[string]any, sign func([]byte) []byte) string {
	text, _ := json.Marshal(claims)
	return assemble(header, text, sign)
}

func assemble(header map[string]any, claims []byte, sign func([]byte) []byte) string {
	head, _ := json.Marshal(header)
	encode := base64.RawURLEncoding.EncodeToString
	text := encode(head) + "." + encode(claims)
	return text + "." + encode(sign([]byte(text)))
}

// JWK is the public key (RFC 7517).
func (k Key) JWK() map[string]any {
	number := func(n *big.Int, size int) string {
		return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, size)))
	}
	if k.EC != nil {
		point, _ := k.EC.PublicKey.Bytes()
		half := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
		return map[string]any{"kty": "EC", "crv": "P-256", "kid": k.ID, "use": "sig", "x": half(point[1:33]), "y": half(point[33:])}
	}
	return map[string]any{
		"kty": "RSA", "kid": k.ID, "use": "sig", "alg": "RS256",
		"n": number(k.RSA.N, k.RSA.Size()), "e": number(big.NewInt(int64(k.RSA.E)), 3),
	}
}
