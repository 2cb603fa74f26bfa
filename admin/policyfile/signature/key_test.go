package signature_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"understudy/admin/policyfile/signature"
	"understudy/admin/policyfile/signature/signaturetest"
)

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestKeys(t *testing.T) {
	private := signaturetest.Key()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "alice"}}
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))
	elliptical := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	for name, text := range map[string][]byte{
		"a public key":              signaturetest.Public(private),
		"a public key of PKCS #1":   block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&private.PublicKey)),
		"a private key of PKCS #1":  block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private)),
		"a private key of PKCS #8":  block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(private))),
		"a certificate":             block("CERTIFICATE", certificate),
		"a key with text before it": append([]byte("alice\n"), signaturetest.Public(private)...),
	} {
		k, err := signature.ParseKey(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		h := make(http.Header)
		signaturetest.Request{Version: "1.1", User: "alice", Method: "GET", Path: "/policies", At: time.Now()}.Sign(h, private)
		if _, ok := verified(k, h, time.Now(), "GET", "/policies", ""); !ok {
			t.Errorf("%s does not verify", name)
		}
	}
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":                 {nil, "it is no PEM"},
		"no PEM":                  {[]byte("ssh-rsa AAAA"), "it is no PEM"},
		"two keys":                {append(signaturetest.Public(private), signaturetest.Public(private)...), "more than one PEM block"},
		"a broken key":            {block("PUBLIC KEY", []byte("x")), "its key cannot be read"},
		"an elliptic key":         {block("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(elliptical.Public()))), "it is no RSA key"},
		"an elliptic private key": {block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(elliptical))), "it is no RSA key"},
		"something else":          {block("ENCRYPTED PRIVATE KEY", []byte("x")), `a block "ENCRYPTED PRIVATE KEY" is neither`},
		"a short key":             {signaturetest.Public(signaturetest.NewKey(1024)), "its key has 1024 bits"},
	} {
		if _, err := signature.ParseKey(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// claimOf is a claim that the key signs now.
func claimOf(t *testing.T, user string) *signature.Claim {
	t.Helper()
	h := make(http.Header)
	signaturetest.Request{Version: "1.3", User: user, Method: "GET", Path: "/policies", At: time.Now()}.Sign(h, signaturetest.Key())
	c, err := signature.Read(h, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKeyring(t *testing.T) {
	path := signaturetest.PublicFile(t, signaturetest.Key())
	r, err := signature.OpenKeyring(map[string]string{"alice": path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when, user string, want bool) {
		t.Helper()
		if got := r.Signed(claimOf(t, user), signature.Request{Method: "GET", Path: "/policies"}); got != want {
			t.Errorf("%s: %s has signed: got %v, want %v", when, user, got, want)
		}
	}
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		// A file that is written twice within a tick of its clock has a new time all the same.
		later := time.Now().Add(time.Hour)
		if err := os.Chtimes(path, later, later); err != nil {
			t.Fatal(err)
		}
	}
	check("at first", "alice", true)
	check("with the key of another", "mallory", false)
	write(signaturetest.Public(signaturetest.NewKey(2048)))
	check("with another key in the file", "alice", false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("without the file", "alice", false)
	write(signaturetest.Public(signaturetest.Key()))
	check("with the file again", "alice", true)
	write([]byte("no key"))
	check("with a file that has no key", "alice", false)
	if _, err := signature.OpenKeyring(map[string]string{"alice": path, "a b": path}, nil); err == nil ||
		!strings.Contains(err.Error(), "alice: ") || !strings.Contains(err.Error(), `"a b": `) {
		t.Errorf("got %v, want an error for each file", err)
	}
}
