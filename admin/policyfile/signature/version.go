package signature

import (
	"crypto"
	"encoding/base64"
	"strings"

	// The hashes of the versions.
	_ "crypto/sha1" // the versions 1.0 and 1.1 have it
	_ "crypto/sha256"
)

// version is a version of the protocol.
type version struct {
	number, algorithm string
	// hash is that of the body, and of what else is hashed.
	hash crypto.Hash
	// digested says that the text is signed as a hash (PKCS #1 v1.5). Otherwise it is
	// signed as it is, which OpenSSL calls private_encrypt.
	digested bool
	// hashedUser says that the text has the hash of the sender's name.
	hashedUser bool
}

// versions are those that clients send. 1.2 was never sent by any.
var versions = []version{
	{number: "1.0", algorithm: "sha1", hash: crypto.SHA1},
	{number: "1.1", algorithm: "sha1", hash: crypto.SHA1, hashedUser: true},
	{number: "1.3", algorithm: "sha256", hash: crypto.SHA256, digested: true},
}

// parseVersion reads X-Ops-Sign, such as algorithm=sha1;version=1.0; where the algorithm
// can be left out. Other members mean nothing.
func parseVersion(description string) (version, bool) {
	said := make(map[string]string)
	for part := range strings.SplitSeq(description, ";") {
		name, value, _ := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		if _, twice := said[name]; twice && name != "" {
			return version{}, false
		}
		said[name] = strings.TrimSpace(value)
	}
	for _, v := range versions {
		if v.number != said["version"] {
			continue
		}
		algorithm, given := said["algorithm"]
		return v, !given || algorithm == v.algorithm
	}
	return version{}, false
}

// sum is the hash of a text as headers have it.
func (v version) sum(text []byte) string {
	h := v.hash.New()
	h.Write(text)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// text is what is signed: one line for each fact.
func (v version) text(c *Claim, method, path string) string {
	method, path = strings.ToUpper(method), canonicalPath(path)
	lines := []string{
		"Method:" + method,
		"Hashed Path:" + v.sum([]byte(path)),
		"X-Ops-Content-Hash:" + c.contentHash,
		"X-Ops-Timestamp:" + c.timestamp,
		"X-Ops-UserId:" + c.User,
	}
	if v.hashedUser {
		lines[4] = "X-Ops-UserId:" + v.sum([]byte(c.User))
	}
	if v.digested {
		lines = []string{
			"Method:" + method,
			"Path:" + path,
			"X-Ops-Content-Hash:" + c.contentHash,
			"X-Ops-Sign:version=" + v.number,
			"X-Ops-Timestamp:" + c.timestamp,
			"X-Ops-UserId:" + c.User,
			"X-Ops-Server-API-Version:" + c.apiVersion,
		}
	}
	return strings.Join(lines, "\n")
}

// canonicalPath leaves out the query, further slashes where there are several, and one at
// the end.
func canonicalPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	var b strings.Builder
	b.Grow(len(path))
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	if b.Len() > 1 {
		return strings.TrimSuffix(b.String(), "/")
	}
	return b.String()
}
