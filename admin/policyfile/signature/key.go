package signature

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Bounds of a key, in bits. A shorter one is too weak, and a longer one takes too long.
const (
	MinKeyBits = 2048
	MaxKeyBits = 8192
)

// Key is a public key of a user or client.
type Key struct{ rsa *rsa.PublicKey }

// ParseKey reads an RSA key in PEM: a public key, or what has one, a private key or a
// certificate. The error says what it is instead.
func ParseKey(text []byte) (*Key, error) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is no PEM")
	}
	if further, _ := pem.Decode(rest); further != nil {
		return nil, errors.New("it has more than one PEM block; leave the one of the key")
	}
	parsed, err := parseBlock(block)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("it is no RSA key, and Chef's clients sign by RSA only")
	}
	if bits := key.N.BitLen(); bits < MinKeyBits || bits > MaxKeyBits {
		return nil, fmt.Errorf("its key has %d bits, and has to have %d to %d", bits, MinKeyBits, MaxKeyBits)
	}
	if key.E < 3 || key.E%2 == 0 {
		return nil, errors.New("its public exponent has to be odd, and 3 at least")
	}
	return &Key{key}, nil
}

// parseBlock returns the public key in a PEM block.
func parseBlock(block *pem.Block) (key any, err error) {
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, failed := x509.ParseCertificate(block.Bytes)
		if err = failed; err == nil {
			key = certificate.PublicKey
		}
	case "RSA PRIVATE KEY":
		private, failed := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err = failed; err == nil {
			key = private.Public()
		}
	case "PRIVATE KEY":
		private, failed := x509.ParsePKCS8PrivateKey(block.Bytes)
		if signer, ok := private.(crypto.Signer); failed == nil && ok {
			key = signer.Public()
		}
		err = failed
	default:
		err = fmt.Errorf("a block %q is neither a key nor a certificate", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("its key cannot be read: %w", err)
	}
	return key, nil
}

// Request is what a claim is about, as it was sent.
type Request struct{ Method, Path string }

// Signed reports whether the owner of the key made a claim about a request. The claim has the
// hash of the body: Covers checks that.
func (k *Key) Signed(c *Claim, r Request) bool {
	text, signature := []byte(c.version.text(c, r.Method, r.Path)), c.signature
	if c.version.digested {
		h := c.version.hash.New()
		h.Write(text)
		return rsa.VerifyPKCS1v15(k.rsa, c.version.hash, h.Sum(nil), signature) == nil
	}
	// Hash 0 means that the text itself is in the padding. Some clients, such as go-chef,
	// send the signature as a number without the zeros at its beginning.
	if missing := k.rsa.Size() - len(signature); missing > 0 {
		signature = append(make([]byte, missing), signature...)
	}
	return rsa.VerifyPKCS1v15(k.rsa, crypto.Hash(0), text, signature) == nil
}
