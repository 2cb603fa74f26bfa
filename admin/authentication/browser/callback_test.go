package browser_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"understudy/admin/authentication/oidc/oidctest"
	"understudy/cmd/testkit"
)

// TestCallbacksAtOnce: anyone who writes the cookie of a login on their own has the issuer
// asked, but only a few times at once; who comes then gets an error at once.
func TestCallbacksAtOnce(t *testing.T) {
	s := newSite(t, false)
	const slots = 8
	asked, answer := make(chan struct{}, 2*slots), make(chan struct{})
	s.issuer.SetReply(oidctest.TokenPath, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
	})
	cookie := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"s":"mine","n":"mine","v":"mine","u":%q,"r":"/ui/"}`, s.callback()))
	callback := func(ended chan<- shown) {
		a := s.agent(t)
		a.cookies["understudy-login"] = &http.Cookie{Name: "understudy-login", Value: cookie, Path: "/ui/"}
		ended <- a.open("GET", s.callback()+"?code=x&state=mine", false, nil)
	}
	waiting, refused := make(chan shown, slots), make(chan shown, slots)
	for range slots {
		go callback(waiting)
	}
	for range slots {
		testkit.Closed(t, "the issuer to be asked", asked)
	}
	for range slots {
		callback(refused)
		if p := testkit.Receive(t, "a login to be refused", refused); p.status != http.StatusServiceUnavailable || !strings.Contains(p.body, "Too many logins") {
			t.Errorf("a callback beyond those under way: got %d\n%s\nwant 503", p.status, p.body)
		}
	}
	if got := s.issuer.Asked(oidctest.TokenPath); got != slots {
		t.Errorf("the issuer was asked %d times, want %d", got, slots)
	}
	close(answer)
	for range slots {
		if p := testkit.Receive(t, "a waiting login to end", waiting); p.status != http.StatusUnauthorized {
			t.Errorf("a callback that was under way: got %d, want 401", p.status)
		}
	}
	callback(refused)
	if p := testkit.Receive(t, "the login to be refused", refused); p.status != http.StatusUnauthorized {
		t.Errorf("after those have ended: got %d, want 401", p.status)
	}
}
