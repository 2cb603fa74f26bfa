// Package certtest makes certificates for tests, and the authorities that sign them.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// failer is a test or a script.
type failer interface {
	Fatalf(format string, args ...any)
}

// Authority signs certificates for tests, in files of a folder.
type Authority struct {
	// dir is where files are written.
	dir  string
	File string // its own certificate
	// Cert is the same as in File.
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Name is the common name of an authority, and what its file is called.
type Name string

// NewAuthority writes NAME.pem.
func NewAuthority(t failer, dir string, name Name) *Authority {
	a := &Authority{dir: dir, File: filepath.Join(dir, string(name)+".pem")}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: string(name)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatalf("signing: %v", err)
	}
	if a.Cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatalf("parsing: %v", err)
	}
	WritePEM(t, a.File, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// Issued is a certificate in files.
type Issued struct{ Cert, Key string }

// Issue writes NAME.crt and NAME.key, for a server or a client on this machine.
func (a *Authority) Issue(t failer, name string, serial int64, valid time.Duration, usage x509.ExtKeyUsage) Issued {
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatalf("signing: %v", err)
	}
	out := Issued{filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encoding a key: %v", err)
	}
	WritePEM(t, out.Cert, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	WritePEM(t, out.Key, &pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return out
}

// Server issues a certificate for a server on this machine.
func (a *Authority) Server(t failer, name string, serial int64) Issued {
	return a.Issue(t, name, serial, 100*24*time.Hour, x509.ExtKeyUsageServerAuth)
}

// Client issues one for a client.
func (a *Authority) Client(t failer, name string, valid time.Duration) Issued {
	return a.Issue(t, name, 1, valid, x509.ExtKeyUsageClientAuth)
}

// newKey makes a key of P-256, which is fast enough for a test to make many.
func newKey(t failer) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("making a key: %v", err)
	}
	return key
}

// WritePEM writes a file that only this user may read, as real keys are.
func WritePEM(t failer, file string, block *pem.Block) {
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatalf("writing: %v", err)
	}
}

// Renamed is a file that gets the name of another one.
type Renamed struct{ From, To string }

// Replace renames a file, in one step.
func Replace(t failer, file Renamed) {
	if err := os.Rename(file.From, file.To); err != nil {
		t.Fatalf("renaming: %v", err)
	}
}
