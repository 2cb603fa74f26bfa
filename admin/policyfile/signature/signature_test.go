package signature_test

import (
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/admin/policyfile/signature"
	"understudy/admin/policyfile/signature/signaturetest"
)

// The vectors of mixlib-authentication: one request, signed by one key in each version.
const (
	vectorKey = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0ueqo76MXuP6XqZBILFz
iH/9AI7C6PaN5W0dSvkr9yInyGHSz/IR1+4tqvP2qlfKVKI4CP6BFH251Ft9qMUB
uAsnlAVQ1z0exDtIFFOyQCdR7iXmjBIWMSS4buBwRQXwDK7id1OxtU23qVJv+xwE
V0IzaaSJmaGLIbvRBD+qatfUuQJBMU/04DdJIwvLtZBYdC2219m5dUBQaa4bimL+
YN9EcsDzD9h9UxQo5ReK7b3cNMzJBKJWLzFBcJuePMzAnLFktr/RufX4wpXe6XJx
oVPaHo72GorLkwnQ0HYMTY8rehT4mDi1FI969LHCFFaFHSAaRnwdXaQkJmSfcxzC
YQIDAQAB
-----END PUBLIC KEY-----
`
	vectorUser = "spec-user"
	vectorBody = "Spec Body"
	vectorPath = "/organizations/clownco"
	vectorTime = "2009-01-01T12:00:00Z"
)

type vector struct {
	sign, contentHash, apiVersion string
	lines                         []string
}

var vectors = map[string]vector{
	"1.0": {"algorithm=sha1;version=1.0;", "DFteJZPVv6WKdQmMqZUQUumUyRs=", "", []string{
		"jVHrNniWzpbez/eGWjFnO6lINRIuKOg40ZTIQudcFe47Z9e/HvrszfVXlKG4",
		"NMzYZgyooSvU85qkIUmKuCqgG2AIlvYa2Q/2ctrMhoaHhLOCWWoqYNMaEqPc",
		"3tKHE+CfvP+WuPdWk4jv4wpIkAz6ZLxToxcGhXmZbXpk56YTmqgBW2cbbw4O",
		"IWPZDHSiPcw//AYNgW1CCDptt+UFuaFYbtqZegcBd2n/jzcWODA7zL4KWEUy",
		"9q4rlh/+1tBReg60QdsmDRsw/cdO1GZrKtuCwbuD4+nbRdVBKv72rqHX9cu0",
		"utju9jzczCyB+sSAQWrxSsXB/b8vV2qs0l4VD2ML+w==",
	}},
	"1.1": {"algorithm=sha1;version=1.1;", "DFteJZPVv6WKdQmMqZUQUumUyRs=", "", []string{
		"UfZD9dRz6rFu6LbP5Mo1oNHcWYxpNIcUfFCffJS1FQa0GtfU/vkt3/O5HuCM",
		"1wIFl/U0f5faH9EWpXWY5NwKR031Myxcabw4t4ZLO69CIh/3qx1XnjcZvt2w",
		"c2R9bx/43IWA/r8w8Q6decuu0f6ZlNheJeJhaYPI8piX/aH+uHBH8zTACZu8",
		"vMnl5MF3/OIlsZc8cemq6eKYstp8a8KYq9OmkB5IXIX6qVMJHA6fRvQEB/7j",
		"281Q7oI/O+lE8AmVyBbwruPb7Mp6s4839eYiOdjbDwFjYtbS3XgAjrHlaD7W",
		"FDlbAG7H8Dmvo+wBxmtNkszhzbBnEYtuwQqT8nM/8A==",
	}},
	"1.3": {"algorithm=sha256;version=1.3;", "hDlKNZhIhgso3Fs0S0pZwJ0xyBWtR1RBaeHs1DrzOho=", "1", []string{
		"FZOmXAyOBAZQV/uw188iBljBJXOm+m8xQ/8KTGLkgGwZNcRFxk1m953XjE3W",
		"VGy1dFT76KeaNWmPCNtDmprfH2na5UZFtfLIKrPv7xm80V+lzEzTd9WBwsfP",
		"42dZ9N+V9I5SVfcL/lWrrlpdybfceJC5jOcP5tzfJXWUITwb6Z3Erg3DU3Uh",
		"H9h9E0qWlYGqmiNCVrBnpe6Si1gU/Jl+rXlRSNbLJ4GlArAPuL976iTYJTzE",
		"MmbLUIm3JRYi00Yb01IUCCKdI90vUq1HHNtlTEu93YZfQaJwRxXlGkCNwIJe",
		"fy49QzaCIEu1XiOx5Jn+4GmkrZch/RrK9VzQWXgs+w==",
	}},
}

func (v vector) header() http.Header {
	h := make(http.Header)
	h.Set("X-Ops-Sign", v.sign)
	h.Set("X-Ops-UserId", vectorUser)
	h.Set("X-Ops-Timestamp", vectorTime)
	h.Set("X-Ops-Content-Hash", v.contentHash)
	if v.apiVersion != "" {
		h.Set("X-Ops-Server-API-Version", v.apiVersion)
	}
	for i, line := range v.lines {
		h.Set("X-Ops-Authorization-"+strconv.Itoa(i+1), line)
	}
	return h
}

// at is the instant of the vectors.
func at(t testing.TB) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, vectorTime)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func parse(t testing.TB, text []byte) *signature.Key {
	t.Helper()
	k, err := signature.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// verified is what a server does: the headers, the signature, the body.
func verified(k *signature.Key, h http.Header, now time.Time, method, path, body string) (user string, ok bool) {
	c, err := signature.Read(h, now)
	if err != nil || !k.Signed(c, signature.Request{Method: method, Path: path}) || !c.Covers([]byte(body)) {
		return "", false
	}
	return c.User, true
}

func TestVectors(t *testing.T) {
	k := parse(t, []byte(vectorKey))
	for version, v := range vectors {
		t.Run(version, func(t *testing.T) {
			if user, ok := verified(k, v.header(), at(t), "POST", vectorPath, vectorBody); !ok || user != vectorUser {
				t.Errorf("the vector: got %q, %v", user, ok)
			}
			for name, path := range map[string]string{
				"slashes": "//organizations///clownco/", "a query": vectorPath + "?x=1",
			} {
				if _, ok := verified(k, v.header(), at(t), "post", path, vectorBody); !ok {
					t.Errorf("%s mean the same, and were refused", name)
				}
			}
			for name, ok := range map[string]bool{
				"another method": second(verified(k, v.header(), at(t), "PUT", vectorPath, vectorBody)),
				"another path":   second(verified(k, v.header(), at(t), "POST", vectorPath+"x", vectorBody)),
				"another body":   second(verified(k, v.header(), at(t), "POST", vectorPath, vectorBody+" ")),
				"no body":        second(verified(k, v.header(), at(t), "POST", vectorPath, "")),
				"another key":    second(verified(parse(t, signaturetest.Public(signaturetest.Key())), v.header(), at(t), "POST", vectorPath, vectorBody)),
			} {
				if ok {
					t.Errorf("%s was accepted", name)
				}
			}
		})
	}
	short := vectors["1.0"]
	short.sign = "version=1.0"
	if _, ok := verified(k, short.header(), at(t), "POST", vectorPath, vectorBody); !ok {
		t.Error("X-Ops-Sign without an algorithm was refused")
	}
}

func second(_ string, ok bool) bool { return ok }

func TestHeaders(t *testing.T) {
	k := parse(t, []byte(vectorKey))
	for name, c := range map[string]struct {
		header, value string
		want          string // of the error; empty if it is the signature that is wrong
	}{
		"no name":               {"X-Ops-UserId", "", "missing required authentication header(s) X-Ops-UserId"},
		"another name":          {"X-Ops-UserId", "spec-user2", ""},
		"a bad name":            {"X-Ops-UserId", "a b", "bad header(s) X-Ops-UserId"},
		"a name that is long":   {"X-Ops-UserId", strings.Repeat("a", 256), "bad header(s) X-Ops-UserId"},
		"no time":               {"X-Ops-Timestamp", "", "missing required authentication header(s) X-Ops-Timestamp"},
		"another time":          {"X-Ops-Timestamp", "2009-01-01T12:00:01Z", ""},
		"too early":             {"X-Ops-Timestamp", "2009-01-01T11:45:00Z", "Failed to authenticate as spec-user. Synchronize the clock on your host."},
		"too late":              {"X-Ops-Timestamp", "2009-01-01T12:15:00Z", "Failed to authenticate as spec-user. Synchronize the clock on your host."},
		"a time in a zone":      {"X-Ops-Timestamp", "2009-01-01T12:00:00+00:00", "bad header(s) X-Ops-Timestamp"},
		"no time at all":        {"X-Ops-Timestamp", "now", "bad header(s) X-Ops-Timestamp"},
		"another hash":          {"X-Ops-Content-Hash", "DFteJZPVv6WKdQmMqZUQUumUyRt=", ""},
		"no version":            {"X-Ops-Sign", "algorithm=sha1", signature.ErrVersion.Error()},
		"version 1.2":           {"X-Ops-Sign", "algorithm=sha1;version=1.2", signature.ErrVersion.Error()},
		"the other algorithm":   {"X-Ops-Sign", "algorithm=sha256;version=1.0", signature.ErrVersion.Error()},
		"two versions":          {"X-Ops-Sign", "version=1.0;version=1.1", signature.ErrVersion.Error()},
		"another version":       {"X-Ops-Sign", "version=1.1", ""},
		"1.3 with this":         {"X-Ops-Sign", "version=1.3", ""},
		"no Base64":             {"X-Ops-Authorization-6", "****", "bad header(s) X-Ops-Authorization-N"},
		"a long line":           {"X-Ops-Authorization-6", strings.Repeat("A", 600), "bad header(s) X-Ops-Authorization-N"},
		"too many lines":        {"X-Ops-Authorization-7", "AAAA", "bad header(s) X-Ops-Authorization-N"}, // after the padding
		"no line":               {"X-Ops-Authorization-1", "", "missing required authentication header(s) X-Ops-Authorization-1"},
		"a line less":           {"X-Ops-Authorization-4", "", ""},
		"another API version":   {"X-Ops-Server-API-Version", "x", "bad header(s) X-Ops-Server-API-Version"},
		"an API version's zero": {"X-Ops-Server-API-Version", "01", "bad header(s) X-Ops-Server-API-Version"},
	} {
		t.Run(name, func(t *testing.T) {
			h := vectors["1.0"].header()
			h.Set(c.header, c.value)
			claim, err := signature.Read(h, at(t))
			switch {
			case c.want == "" && (err != nil || k.Signed(claim, signature.Request{Method: "POST", Path: vectorPath}) && claim.Covers([]byte(vectorBody))):
				t.Errorf("got %v, want a wrong signature", err)
			case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	for _, name := range []string{"X-Ops-UserId", "X-Ops-Timestamp", "X-Ops-Sign", "X-Ops-Content-Hash", "X-Ops-Authorization-1", "X-Ops-Authorization-3", "X-Ops-Server-API-Version"} {
		h := vectors["1.3"].header()
		h.Add(name, h.Get(name))
		if _, err := signature.Read(h, at(t)); err == nil {
			t.Errorf("%s given twice was accepted", name)
		}
	}
}

// A signature is a number, and some clients leave out the zeros at its beginning.
func TestZerosOfASignature(t *testing.T) {
	private := signaturetest.Key()
	k, now := parse(t, signaturetest.Public(private)), time.Now()
	for i := range 8192 {
		h := make(http.Header)
		r := signaturetest.Request{Version: "1.0", User: "u" + strconv.Itoa(i), Method: "GET", Path: "/policies", At: now}
		r.Sign(h, private)
		if joined(t, h)[0] != 0 {
			continue
		}
		dropped := h.Clone()
		setLines(dropped, new(big.Int).SetBytes(joined(t, h)).Bytes())
		if user, ok := verified(k, dropped, now, "GET", "/policies", ""); !ok || user != r.User {
			t.Errorf("%v was refused", dropped)
		}
		return
	}
	t.Error("no signature began with a zero")
}

func TestEachVersion(t *testing.T) {
	private, now := signaturetest.Key(), time.Now()
	k := parse(t, signaturetest.Public(private))
	for _, version := range []string{"1.0", "1.1", "1.3"} {
		for _, apiVersion := range []string{"", "0", "1"} {
			h := make(http.Header)
			r := signaturetest.Request{Version: version, User: "alice", Method: "PUT", Path: "/policy_groups/a%3Ab/policies/web/", Body: `{"a":1}`, At: now, APIVersion: apiVersion}
			r.Sign(h, private)
			if user, ok := verified(k, h, now, "PUT", r.Path, r.Body); !ok || user != "alice" {
				t.Errorf("%s with API version %q: got %q, %v", version, apiVersion, user, ok)
			}
		}
	}
	// It is signed in 1.3 alone.
	h := make(http.Header)
	signaturetest.Request{Version: "1.3", User: "alice", Method: "GET", Path: "/", At: now, APIVersion: "1"}.Sign(h, private)
	h.Set("X-Ops-Server-API-Version", "2")
	if _, ok := verified(k, h, now, "GET", "/", ""); ok {
		t.Error("another X-Ops-Server-API-Version was accepted")
	}
}
