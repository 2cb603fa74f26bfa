package port

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"understudy/cmd/understudy/command"
)

// TLSFiles are the PEM files that the flags of one port name.
type TLSFiles struct {
	// Cert holds the chain, the server's own certificate first; key its private key.
	Cert, Key string
	// ClientCA holds those who may have signed a client's certificate. Empty means
	// that clients need none.
	ClientCA string
	// ClientOptional takes clients without a certificate too, which have to be known in
	// another way. One that is shown has to be good all the same.
	ClientOptional bool
}

// Given reports whether the port speaks TLS.
func (f TLSFiles) Given() bool { return f.Cert != "" || f.Key != "" || f.ClientCA != "" }

// Complete reports whether nothing is missing next to what is given.
func (f TLSFiles) Complete() bool { return !f.Given() || f.Cert != "" && f.Key != "" }

// tlsFlags are the flags that name TLSFiles, without dashes.
type tlsFlags struct{ cert, key, ca string }

// flagsOf returns the flags of a port.
func flagsOf(port string) tlsFlags {
	return tlsFlags{cert: port + "-tls-cert", key: port + "-tls-key", ca: port + "-tls-client-ca"}
}

// clientAuth is what is asked of clients if there is a ClientCA.
func (f TLSFiles) clientAuth() tls.ClientAuthType {
	if f.ClientOptional {
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequireAndVerifyClientCert
}

// pemFiles are the contents of TLSFiles.
type pemFiles struct{ cert, key, ca []byte }

// digests are for comparing contents without keeping a private key about.
type digests [3][sha256.Size]byte

// digests returns those of the three files.
func (p pemFiles) digests() digests {
	return digests{sha256.Sum256(p.cert), sha256.Sum256(p.key), sha256.Sum256(p.ca)}
}

// read reads the files. Its errors name the flag.
//
// All files are read before any is used: a certificate and a key of two moments do not
// fit.
func (f TLSFiles) read(flags tlsFlags) (p pemFiles, err error) {
	for _, file := range []struct {
		flag, path string
		content    *[]byte
	}{
		{flags.cert, f.Cert, &p.cert}, {flags.key, f.Key, &p.key}, {flags.ca, f.ClientCA, &p.ca},
	} {
		if file.path == "" {
			continue
		}
		if *file.content, err = command.ReadSmallFile(file.path); err != nil {
			return pemFiles{}, fmt.Errorf("--%s: %w; name a PEM file that this process may read", file.flag, err)
		}
	}
	return p, nil
}

// pair returns the certificate with its key, and when the chain expires: that is
// when the first of its certificates does.
func (f TLSFiles) pair(flags tlsFlags, p pemFiles) (tls.Certificate, time.Time, error) {
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return pair, time.Time{}, fmt.Errorf("--%s %s and --%s %s: %w; the first holds the chain as PEM, "+
			"the certificate of this process first, the second its key without a password", flags.cert, f.Cert, flags.key, f.Key, err)
	}
	expiry := pair.Leaf.NotAfter
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return pair, time.Time{}, fmt.Errorf("--%s %s: a certificate after the first: %w", flags.cert, f.Cert, err)
		}
		if c.NotAfter.Before(expiry) {
			expiry = c.NotAfter
		}
	}
	return pair, expiry, nil
}

// authorities returns those that may have signed the certificate of the other side; nil if no
// file has them.
func (f TLSFiles) authorities(flags tlsFlags, p pemFiles) (*x509.CertPool, error) {
	if f.ClientCA == "" {
		return nil, nil
	}
	pool, err := CertPool(p.ca)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w; it holds certificates of authorities as PEM", flags.ca, f.ClientCA, err)
	}
	return pool, nil
}

// Authorities reads the PEM file of who may have signed the certificate of a server; nil, which
// are those of the system, if there is none. Its errors name the flag.
func Authorities(file command.FlagValue) (*x509.CertPool, error) {
	if file.Value == "" {
		return nil, nil
	}
	content, err := command.ReadSmallFile(file.Value)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", file.Flag, err)
	}
	pool, err := CertPool(content)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", file.Flag, file.Value, err)
	}
	return pool, nil
}

// CertPool reads certificates. Unlike x509.CertPool.AppendCertsFromPEM it leaves
// none out: a broken one is an error, and so is a file without any.
func CertPool(content []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), false
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(c)
		found = true
	}
	if !found {
		return nil, errors.New("there is no certificate in it")
	}
	return pool, nil
}
