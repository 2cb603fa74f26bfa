package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// The paths of the issuer.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeysPath      = "/keys"
	AuthorizePath = "/authorize"
	TokenPath     = "/token"
)

// login is a code that was given out and not yet exchanged.
type login struct{ client, redirect, challenge, nonce string }

// serve answers what the issuer is asked.
func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	if i.absent {
		i.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	i.asked[r.URL.Path]++
	down, reply, admitted := i.down, i.replies[r.URL.Path], i.admits(r)
	i.mu.Unlock()
	switch {
	case down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case !admitted:
		http.Error(w, "another bearer token is needed, or none", http.StatusUnauthorized)
	case reply != nil:
		reply(w, r)
	case r.URL.Path == DiscoveryPath:
		i.Discover(w)
	case r.URL.Path == KeysPath:
		i.serveKeys(w)
	case r.URL.Path == AuthorizePath:
		i.authorize(w, r)
	case r.URL.Path == TokenPath && r.Method == http.MethodPost:
		i.exchange(w, r)
	default:
		http.NotFound(w, r)
	}
}

// admits reports whether a request has the bearer token that its path needs, or none where it needs
// none. i is locked.
func (i *Issuer) admits(r *http.Request) bool {
	shown := r.Header.Get("Authorization")
	if i.bearer != "" && (r.URL.Path == DiscoveryPath || r.URL.Path == KeysPath) {
		return shown == "Bearer "+i.bearer
	}
	return !strings.HasPrefix(shown, "Bearer ")
}

// Discover answers with the discovery document.
func (i *Issuer) Discover(w http.ResponseWriter) {
	reply(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + KeysPath,
		"authorization_endpoint": i.URL + AuthorizePath, "token_endpoint": i.URL + TokenPath,
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
		"code_challenge_methods_supported":      []string{"S256"},
	})
}

func (i *Issuer) serveKeys(w http.ResponseWriter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	set := []any{map[string]any{"kty": "OKP", "crv": "X448", "kid": "a key of another time", "x": "AA"}}
	for _, k := range i.keys {
		set = append(set, k.JWK())
	}
	reply(w, http.StatusOK, map[string]any{"keys": set})
}

// authorize logs everybody in without asking, and sends the browser back.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != i.Audience || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "a bad request for a code", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = login{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("nonce")}
	i.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// exchange gives an ID token for a code, once (RFC 6749, section 4.1.3; RFC 7636).
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	code := r.FormValue("code")
	i.mu.Lock()
	l, found := i.codes[code]
	delete(i.codes, code)
	claims := i.Claims(i.claims)
	i.mu.Unlock()
	digest := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !found || base64.RawURLEncoding.EncodeToString(digest[:]) != l.challenge || r.FormValue("redirect_uri") != l.redirect {
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	answer := maps.Clone(claims)
	if l.nonce != "" {
		if _, given := claims["nonce"]; !given {
			answer["nonce"] = l.nonce
		}
	}
	reply(w, http.StatusOK, map[string]any{
		"access_token": "opaque", "token_type": "Bearer", "expires_in": 3600, "id_token": i.Key().Sign(answer),
	})
}

// reply sends JSON.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// rsaPublic is PKCS #1.
func rsaPublic(k *rsa.PrivateKey) []byte { return x509.MarshalPKCS1PublicKey(&k.PublicKey) }
