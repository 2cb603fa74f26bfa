package browser_test

import (
	"net/url"
	"strings"
	"testing"

	"understudy/admin/authentication/browser"
	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
)

// TestOneChoosesTheIssuer, and comes back as its principal. One that is away is no obstacle to
// the other.
func TestOneChoosesTheIssuer(t *testing.T) {
	second := oidctest.New(t)
	s := newSiteBehind(t, false, nil, second)
	p := s.agent(t).open("GET", s.URL+browser.LoginPath+"?return=/ui/x", false, nil)
	links := issuerLink.FindAllStringSubmatch(p.body, -1)
	if len(links) != 2 {
		t.Fatalf("the login offers %q\n%s", links, p.body)
	}
	for n, issuer := range []*oidctest.Issuer{s.issuer, second} {
		if !strings.Contains(p.body, "Log in with "+oidc.NameOf(issuer.URL)+"<") {
			t.Errorf("the login does not name %s:\n%s", issuer.URL, p.body)
		}
		got := s.agent(t).open("GET", s.URL+strings.ReplaceAll(links[n][1], "&amp;", "&"), false, nil)
		if want := "oidc:" + issuer.URL + "#ann looks at /ui/x"; got.status != 200 || got.body != want {
			t.Errorf("a login: %d %s, want %s", got.status, got.body, want)
		}
	}
	absent := oidctest.Absent(t)
	s = newSiteBehind(t, false, nil, absent)
	if got := s.agent(t).open("GET", s.loginURL(), false, nil); got.status != 200 {
		t.Errorf("a login while the other issuer is away: %d %s", got.status, got.body)
	}
	got := s.agent(t).open("GET", s.URL+browser.LoginPath+"?with="+oidc.NameOf(absent.URL), false, nil)
	if got.status != 503 || !strings.Contains(got.body, oidc.NameOf(absent.URL)+" cannot be reached") || !strings.Contains(got.body, "with="+url.QueryEscape(s.name())) {
		t.Errorf("a login at the one that is away: %d\n%s", got.status, got.body)
	}
}

// TestIssuersAreNotMixedUp: a code that one issuer made is never sent to another one, anyone who led
// the browser where (RFC 9700, section 4.4).
func TestIssuersAreNotMixedUp(t *testing.T) {
	evil := oidctest.New(t)
	s := newSiteBehind(t, false, nil, evil)
	begin := func(a *agent, issuer *oidctest.Issuer) url.Values {
		p := a.request("GET", s.URL+browser.LoginPath+"?with="+oidc.NameOf(issuer.URL), false, nil)
		at, err := url.Parse(p.header.Get("Location"))
		if err != nil || p.status != 303 {
			t.Fatalf("%d %v", p.status, err)
		}
		return at.Query()
	}
	// The victim begins at the evil issuer, which leads on to the honest one by a challenge of
	// its own. The honest one sends the code to the only address that it knows.
	victim := s.agent(t)
	attempt := begin(victim, evil)
	honest := begin(s.agent(t), s.issuer)
	attempt.Set("redirect_uri", honest.Get("redirect_uri"))
	p := victim.open("GET", s.issuer.URL+oidctest.AuthorizePath+"?"+attempt.Encode(), true, nil)
	if p.status != 400 || len(victim.cookies) != 0 {
		t.Errorf("a code of the honest issuer in a login at the evil one: %d %s, %d cookies", p.status, p.url, len(victim.cookies))
	}
	if asked := evil.Asked(oidctest.TokenPath); asked != 0 {
		t.Errorf("the evil issuer was shown the code %d times", asked)
	}
	// An answer says whose it is (RFC 9207).
	state := begin(victim, s.issuer).Get("state")
	if p := victim.open("GET", s.callback()+"?code=x&state="+state+"&iss="+url.QueryEscape(evil.URL), true, nil); p.status != 400 {
		t.Errorf("an answer of another issuer: %d", p.status)
	}
	if asked := s.issuer.Asked(oidctest.TokenPath); asked != 0 {
		t.Errorf("the issuer was asked %d times", asked)
	}
}
