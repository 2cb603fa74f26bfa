package signature_test

import (
	"net/http"
	"testing"
	"time"

	"understudy/admin/policyfile/signature"
	"understudy/admin/policyfile/signature/signaturetest"
)

// Whatever one header is replaced by, a signature holds for what was signed alone.
func FuzzHeaders(f *testing.F) {
	private, now := signaturetest.Key(), time.Now()
	text := signaturetest.Public(private)
	for _, version := range []string{"1.0", "1.1", "1.3"} {
		for _, name := range []string{
			"X-Ops-Sign", "X-Ops-UserId", "X-Ops-Timestamp", "X-Ops-Content-Hash", "X-Ops-Authorization-1", "X-Ops-Authorization-6", "X-Ops-Authorization-7",
			"X-Ops-Server-API-Version",
		} {
			for _, value := range []string{"", "algorithm=sha1;version=1.0;;x", "2009-01-01T12:00:00Z", "AA==", "0", "alice\n"} {
				f.Add(version, name, value, false)
				f.Add(version, name, value, true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, version, name, value string, add bool) {
		if version != "1.0" && version != "1.1" && version != "1.3" {
			return
		}
		signed := make(http.Header)
		signaturetest.Request{Version: version, User: "alice", Method: "PUT", Path: "/policies/web", Body: "{}", At: now}.Sign(signed, private)
		h := signed.Clone()
		if add {
			h.Add(name, value)
		} else {
			h.Set(name, value)
		}
		c, err := signature.Read(h, now)
		if err != nil {
			return
		}
		if !signature.Present(h) {
			t.Errorf("a claim without headers: %v", h)
		}
		if !parse(t, text).Signed(c, signature.Request{Method: "PUT", Path: "/policies/web"}) || !c.Covers([]byte("{}")) {
			return
		}
		if c.User != "alice" {
			t.Errorf("%q signed: %v", c.User, h)
		}
		for _, of := range []string{"X-Ops-UserId", "X-Ops-Timestamp", "X-Ops-Content-Hash"} {
			if h.Get(of) != signed.Get(of) {
				t.Errorf("%s is %q, and %q was signed", of, h.Get(of), signed.Get(of))
			}
		}
	})
}
