package bundle

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	opabundle "github.com/open-policy-agent/opa/v1/bundle"
)

// VerificationKey verifies the signature of a bundle.
type VerificationKey struct {
	// Key is a public key or certificate as PEM, or the secret of an HS algorithm.
	Key string
	// Algorithm is that of JSON Web Algorithms, such as RS256.
	Algorithm string
}

// keyID names the one key there is, whatever the signature says of it.
const keyID = "key"

// verify holds a bundle to its signature. A signed bundle without a key is refused, not
// taken as it is: anyone who signed it expects that somebody looks. So is an unsigned one
// with a key, or removing the signature would be the way around it.
func verify(content files, options Options) error {
	names := content.ofKind(signaturesFile)
	switch {
	case options.SkipVerify:
		return nil
	case len(names) == 0 && options.Key == nil:
		return nil
	case len(names) == 0:
		return refuse("", "The bundle is not signed, though there is a key to verify it with.")
	case len(names) > 1:
		return refuse(names[1], "There is a second signature, next to %s.", names[0])
	case options.Key == nil:
		return refuse(names[0], "The bundle is signed, and nothing is here to verify it with. "+
			"Name the key with --verification-key, or pass --skip-verify.")
	}
	signed, err := signedFiles(content[names[0]], *options.Key)
	if err != nil {
		return refuse(names[0], "The signature does not verify: %s", err)
	}
	return compare(content, signed)
}

// signedFiles returns the files that a signature covers, with their digests, by name.
// The key is used whatever key ID the signature names: a bundle must not choose how it
// is verified.
func signedFiles(signatures []byte, key VerificationKey) (map[string]opabundle.FileInfo, error) {
	var config opabundle.SignaturesConfig
	if err := json.Unmarshal(signatures, &config); err != nil {
		return nil, err
	}
	keys := map[string]*opabundle.KeyConfig{keyID: {Key: key.Key, Algorithm: key.Algorithm}}
	return opabundle.VerifyBundleSignature(config, opabundle.NewVerificationConfig(keys, keyID, "", nil))
}

// compare holds every file to its digest, and every digest to a file: neither a changed
// file nor an added or a removed one passes.
func compare(content files, signed map[string]opabundle.FileInfo) error {
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if kindOfFile(name) == signaturesFile {
			continue
		}
		if err := opabundle.VerifyBundleFile(name, *bytes.NewBuffer(content[name]), signed); err != nil {
			return refuse(name, "It is not what was signed: %s", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(signed)) {
		return refuse(name, "It was signed, but is not in the bundle.")
	}
	return nil
}
