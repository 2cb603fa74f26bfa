package bounds

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The work with an RSA key grows with the square of its length where a signature is
// checked, and with the cube where one is made. The standard library takes keys of any
// length: to sign with one of 32,768 bits takes half a minute.
const (
	// maxToken is the longest token with the keys to check it, in bytes, and the longest text
	// of certificates.
	maxToken = 64 << 10
	// maxChecked bounds the check of a signature: it is compared with what each of the keys
	// makes of it, if the key is as long.
	maxChecked = 24_000_000
	// maxPrivate is the longest text of private keys that are only read, in bytes. A key of
	// 4,096 bits has 3,200.
	maxPrivate = 16 << 10
	// maxSigning is the longest text of a private key with which something is signed, in
	// bytes: room for a JSON Web Key of 4,096 bits.
	maxSigning = 3500
	// maxSigned is the longest text that is signed, with its key, in bytes.
	maxSigned = 8 << 10
	// maxKeyBits is the longest RSA key of a certificate that is verified. It is the limit
	// of package crypto/tls.
	maxKeyBits = 8192
)

var _ = []struct{}{
	bind(maxToken, bytesOfText, text, "crypto.x509.parse_certificate_request", "crypto.x509.parse_certificates", "io.jwt.decode"),
	bind(maxPrivate, bytesOfText, text, "crypto.parse_private_keys", "crypto.x509.parse_rsa_private_key"),
	bind(maxPrivate, "bytes of the key and a quarter of the certificates", keyPair, "crypto.x509.parse_keypair"),
	bind(maxKeyBits, "bits of the longest RSA key, in at most 64 KiB of text", certified,
		"crypto.x509.parse_and_verify_certificates", "crypto.x509.parse_and_verify_certificates_with_options"),
	bind(maxChecked, "bytes of the signature × bytes of the keys, and 64 KiB of text", checked,
		"io.jwt.decode_verify", "io.jwt.verify_eddsa", "io.jwt.verify_es256", "io.jwt.verify_es384",
		"io.jwt.verify_es512", "io.jwt.verify_hs256", "io.jwt.verify_hs384", "io.jwt.verify_hs512",
		"io.jwt.verify_ps256", "io.jwt.verify_ps384", "io.jwt.verify_ps512", "io.jwt.verify_rs256",
		"io.jwt.verify_rs384", "io.jwt.verify_rs512"),
	bind(maxSigned, "bytes of text, of which the key has at most 3500", signed, "io.jwt.encode_sign", "io.jwt.encode_sign_raw"),
}

// keyPair is the length of a private key, and less for its certificates, which are only
// read.
func keyPair(operands []*ast.Term) int { return length(operands[0])/4 + length(operands[1]) }

// checked is how much is compared to check a token's signature, its last part. The keys may
// be in an object, and of those of a set each is tried.
func checked(operands []*ast.Term) int {
	token, keys := str(operands[0]), weighed(operands[1:2], maxToken).text
	if len(token)+keys > maxToken {
		return maxChecked + 1
	}
	return (len(token) - strings.LastIndexByte(token, '.') - 1) * keys
}

// signed is the text of all operands. The third is the key; a fourth would be the result,
// which an expression compares the token with.
func signed(operands []*ast.Term) int {
	if weighed(operands[2:3], maxSigned).text > maxSigning {
		return maxSigned + 1
	}
	return deepText(operands)
}

// certified is the length of the longest RSA key in certificates, in bits. What is no
// certificate is not verified either, and costs nothing.
func certified(operands []*ast.Term) (bits int) {
	if length(operands[0]) > maxToken {
		return maxKeyBits + 1
	}
	for _, c := range certificates(str(operands[0])) {
		bits = max(bits, keyBits(c.PublicKey))
	}
	return bits
}

func keyBits(key any) int {
	if k, ok := key.(*rsa.PublicKey); ok {
		return k.N.BitLen()
	}
	return 0
}

// certificates reads them as OPA does: PEM, or base64 of PEM or of DER.
func certificates(s string) []*x509.Certificate {
	content := []byte(s)
	const begin = "-----BEGIN"
	if !strings.HasPrefix(s, begin) {
		decoded, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil
		}
		content = decoded
	}
	if bytes.HasPrefix(content, []byte(begin)) {
		var der []byte
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			der = append(der, block.Bytes...)
		}
		content = der
	}
	found, err := x509.ParseCertificates(content)
	if err != nil {
		return nil
	}
	return found
}
