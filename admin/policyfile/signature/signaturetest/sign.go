// Package signaturetest signs requests as Chef's clients do, for tests. It is written from
// the protocol, apart from the package that it tests.
package signaturetest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" // the protocol has it
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// key is the key of all tests: making one takes long.
var key = sync.OnceValue(func() *rsa.PrivateKey { return NewKey(2048) })

// Key returns a key of 2048 bits, the same one each time.
func Key() *rsa.PrivateKey { return key() }

// NewKey makes a key.
func NewKey(bits int) *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return k
}

// Public returns the public key as PEM.
func Public(k *rsa.PrivateKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// PublicFile writes the public key to a file of the test and returns its path.
func PublicFile(t testing.TB, k *rsa.PrivateKey) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, Public(k), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Request is what is signed.
type Request struct {
	// Version is 1.0, 1.1 or 1.3.
	Version string
	User    string
	Method  string
	// Path is as it is sent, without a query.
	Path string
	Body string
	At   time.Time
	// APIVersion is that of X-Ops-Server-API-Version; empty is none.
	APIVersion string
}

// Sign adds the headers of a signature.
func (r Request) Sign(h http.Header, k *rsa.PrivateKey) {
	at := r.At.UTC().Format("2006-01-02T15:04:05Z")
	text, algorithm, contentHash := r.text(at)
	var signed []byte
	var err error
	if r.Version == "1.3" {
		sum := sha256.Sum256([]byte(text))
		signed, err = rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
	} else {
		signed, err = rsa.SignPKCS1v15(nil, k, 0, []byte(text))
	}
	if err != nil {
		panic(err)
	}
	h.Set("X-Ops-Sign", "algorithm="+algorithm+";version="+r.Version+";")
	h.Set("X-Ops-UserId", r.User)
	h.Set("X-Ops-Timestamp", at)
	h.Set("X-Ops-Content-Hash", contentHash)
	if r.APIVersion != "" {
		h.Set("X-Ops-Server-API-Version", r.APIVersion)
	}
	encoded := base64.StdEncoding.EncodeToString(signed)
	for i := 1; encoded != ""; i++ {
		n := min(60, len(encoded))
		h.Set(fmt.Sprintf("X-Ops-Authorization-%d", i), encoded[:n])
		encoded = encoded[n:]
	}
}

// text is what is signed.
func (r Request) text(at string) (text, algorithm, contentHash string) {
	path := "/" + strings.Join(strings.FieldsFunc(r.Path, func(c rune) bool { return c == '/' }), "/")
	user, apiVersion := r.User, r.APIVersion
	if r.Version == "1.3" {
		if apiVersion == "" {
			apiVersion = "0"
		}
		sum := sha256.Sum256([]byte(r.Body))
		contentHash = base64.StdEncoding.EncodeToString(sum[:])
		return fmt.Sprintf("Method:%s\nPath:%s\nX-Ops-Content-Hash:%s\nX-Ops-Sign:version=1.3\nX-Ops-Timestamp:%s\nX-Ops-UserId:%s\nX-Ops-Server-API-Version:%s",
			r.Method, path, contentHash, at, user, apiVersion), "sha256", contentHash
	}
	contentHash = sha1Text(r.Body)
	if r.Version == "1.1" {
		user = sha1Text(user)
	}
	return fmt.Sprintf("Method:%s\nHashed Path:%s\nX-Ops-Content-Hash:%s\nX-Ops-Timestamp:%s\nX-Ops-UserId:%s",
		r.Method, sha1Text(path), contentHash, at, user), "sha1", contentHash
}

func sha1Text(text string) string {
	sum := sha1.Sum([]byte(text)) // the protocol has it
	return base64.StdEncoding.EncodeToString(sum[:])
}
