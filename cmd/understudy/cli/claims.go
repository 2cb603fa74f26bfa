package cli

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"understudy/cmd/understudy/command"
)

// claims is what a made-up token says (RFC 7519).
//
// A policy that verifies signatures refuses a token that is not signed, and one without verification
// takes it: which of the two a policy does is what one finds out with it.
type claims map[string]any

var (
	// listClaims are arrays, also of one value, and timeClaims seconds since 1970: policies
	// rely on their types.
	listClaims = []string{"roles", "groups"}
	timeClaims = []string{"exp", "nbf", "iat"}
)

// claimsLifetime is how long a made-up token is valid if it does not say so.
const claimsLifetime = time.Hour

// parseClaims reads the value of --claims: a JSON object, or NAME=VALUE with commas between.
//
// The list is for a command line by hand, the object for all that a list cannot say.
func parseClaims(text string) (c claims, err error) {
	if strings.HasPrefix(text, "{") {
		c, err = claimsOfJSON(text)
	} else {
		c, err = claimsOfList(text)
	}
	if err != nil {
		return nil, fmt.Errorf("--claims: %w", err)
	}
	return c, nil
}

// claimsOfJSON reads claims of every type.
func claimsOfJSON(text string) (claims, error) {
	c := make(claims)
	decoder := json.NewDecoder(strings.NewReader(text))
	// Numbers stay as they are written: as float64 a large ID would be another one.
	decoder.UseNumber()
	// One object and nothing behind it.
	if err := decoder.Decode(&c); err != nil || decoder.More() {
		return nil, errors.New(`it begins with { and is no JSON object: write it such as {"sub":"alice","roles":["admin"]}`)
	}
	return c, nil
}

// claimsOfList reads claims that are texts, lists of them or times.
//
// Types go by the name of a claim. sub=42 is the text "42", as RFC 7519 has it, and exp=42 a number.
func claimsOfList(text string) (claims, error) {
	c := make(claims)
	for _, one := range strings.Split(text, ",") {
		name, value, found := strings.Cut(one, "=")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, fmt.Errorf("%q is not like NAME=VALUE, such as sub=alice; a value with a comma in it is written as JSON", one)
		}
		// The second one would replace the first, which nobody means.
		if _, twice := c[name]; twice {
			return nil, fmt.Errorf("%s is there twice: several %s are written with a + between, such as roles=admin+support", name, name)
		}
		switch {
		case slices.Contains(listClaims, name):
			c[name] = strings.Split(value, "+")
		case slices.Contains(timeClaims, name):
			seconds := json.Number(value)
			if _, err := seconds.Int64(); err != nil {
				return nil, fmt.Errorf("%s=%s: it is a number of seconds since 1970; another type is written as JSON", name, value)
			}
			c[name] = seconds
		default:
			c[name] = value
		}
	}
	return c, nil
}

// token returns a JSON Web Token with the claims: signed with HS256 by a key, or not at all
// without one. It is valid for an hour if the claims have no exp.
func (c claims) token(key []byte, now time.Time) (string, error) {
	if _, has := c["exp"]; !has {
		c["exp"] = now.Add(claimsLifetime).Unix()
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("--claims: %w", err)
	}
	// HS256 alone: with one secret on both sides, a policy can be tried without a key pair.
	header := `{"alg":"HS256","typ":"JWT"}`
	if key == nil {
		header = `{"alg":"none","typ":"JWT"}`
	}
	encode := base64.RawURLEncoding.EncodeToString
	unsigned := encode([]byte(header)) + "." + encode(payload)
	if key == nil {
		// RFC 7519, section 6.1: an unsecured token has an empty signature.
		return unsigned + ".", nil
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(unsigned))
	return unsigned + "." + encode(mac.Sum(nil)), nil
}

// claimFlags are the flags of `check` that make a token up.
type claimFlags struct {
	// claims is the value of --claims, and keyFile the name of a file with a secret.
	claims, keyFile string
}

// authorization returns the header with the token of the flags; empty if they ask for none.
func (f *claimFlags) authorization(now time.Time) (string, error) {
	if f.claims == "" {
		if f.keyFile != "" {
			return "", errors.New("--claims-key signs the token of --claims, and there is none")
		}
		return "", nil
	}
	c, err := parseClaims(f.claims)
	if err != nil {
		return "", err
	}
	var key []byte
	if f.keyFile != "" {
		if key, err = command.ReadSmallFile(f.keyFile); err != nil {
			return "", fmt.Errorf("--claims-key: %w", err)
		}
		// Editors end a file with a line break, which is no part of the secret.
		if key = bytes.TrimSpace(key); len(key) == 0 {
			return "", fmt.Errorf("--claims-key: %s is empty: it has the secret that the policy verifies tokens with", f.keyFile)
		}
	}
	token, err := c.token(key, now)
	return "Bearer " + token, err
}
