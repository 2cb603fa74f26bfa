package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-jose/go-jose/v4"
)

// maxKeys bounds the keys of an issuer: a token that names none is tried with each.
const maxKeys = 100

// algorithms are those with a public key. None and those with a shared secret are not
// among them: a public key would be taken for a secret.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// algorithmNames are the same for go-oidc.
var algorithmNames = func() (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}()

var (
	errUnknownKey   = errors.New("no key has the ID that the token names")
	errBadSignature = errors.New("the signature is not that of the key")
)

// fetchKeys reads the public keys at a URL (RFC 7517). Keys that cannot be used here are
// left out, as its section 5 says.
func fetchKeys(ctx context.Context, client *http.Client, url string) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return parseKeys(content)
}

// parseKeys reads a set of keys.
func parseKeys(content []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, errors.New("the keys are not JSON of a key set (RFC 7517)")
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d public keys for signatures; it has 1 to %d", len(keys), maxKeys)
	}
	return keys, nil
}

// attempt is the verification of one token. It implements the KeySet of go-oidc, which
// hides the causes of failures.
type attempt struct {
	keys []jose.JSONWebKey
	// names are the claims of which the token may have no lookalike.
	names []string
	// err is why the signature was refused, refused why the claims were that it covers.
	err     error
	refused *Refusal
	// document has the claims; nil if they were refused.
	document document
}

// VerifySignature implements oidc.KeySet. Claims that can be read in two ways go no further.
func (a *attempt) VerifySignature(_ context.Context, token string) ([]byte, error) {
	payload, err := a.verify(token)
	if err != nil {
		a.err = err
		return nil, err
	}
	if a.document, a.refused = strictly(payload, a.names); a.refused != nil {
		return nil, a.refused
	}
	return payload, nil
}

// verify tries the key that a token names, or each if it names none. A key with an algorithm
// is for that one alone.
func (a *attempt) verify(token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	header, found := signed.Signatures[0].Header, false
	for i := range a.keys {
		key := &a.keys[i]
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		found = true
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	// A token that names no key may be of a new one.
	if !found || header.KeyID == "" {
		return nil, errUnknownKey
	}
	return nil, errBadSignature
}
