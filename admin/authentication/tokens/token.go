package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"
)

// Prefix begins every token that New makes, so that scanners of secrets know one.
const Prefix = "ustk_"

// tokenBytes is how many random bytes a token has: 256 bits.
const tokenBytes = 32

// New makes a token for a name, and the line of a token file by which it is known. It expires at
// a time, in whole seconds; zero is no end. The error says what a name has to be.
func New(name string, expires time.Time) (token, line string, err error) {
	if !namePattern.MatchString(name) {
		return "", "", fmt.Errorf("the name %q: %s", name, nameRule)
	}
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // never fails
	token = Prefix + base64.RawURLEncoding.EncodeToString(random)
	digest := sha256.Sum256([]byte(token))
	line = name + " " + hex.EncodeToString(digest[:])
	if !expires.IsZero() {
		line += " " + expires.UTC().Format(time.RFC3339)
	}
	return token, line, nil
}
