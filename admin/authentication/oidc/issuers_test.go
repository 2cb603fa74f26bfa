package oidc_test

import (
	"errors"
	"testing"

	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
)

// TestTwoIssuers: each verifies its own tokens, by its own keys and audiences, whatever the other
// one's are called.
func TestTwoIssuers(t *testing.T) {
	t.Parallel()
	people, cluster := oidctest.New(t), oidctest.New(t)
	cluster.Audience = "understudy-jobs"
	key := cluster.NewEC(people.Key().ID)
	cluster.SetKeys(key)
	all := both(t, people, cluster)
	for name, c := range map[string]struct{ token, member, outcome string }{
		"a person":                          {people.Token(nil), "oidc:" + people.URL + "#ann", ""},
		"a job of the same subject":         {cluster.Token(nil), "oidc:" + cluster.URL + "#ann", ""},
		"a job for the people's audience":   {cluster.Token(map[string]any{"aud": "understudy"}), "", "audience"},
		"a person, signed by the cluster":   {key.Sign(people.Claims(nil)), "", "signature"},
		"a token of neither":                {people.Token(map[string]any{"iss": "https://issuer.example.com"}), "", "issuer"},
		"a token that names both":           {people.Key().SignText([]byte(`{"iss":"` + people.URL + `","ISS":"` + cluster.URL + `"}`)), "", "malformed"},
		"a token of a list of both":         {people.Token(map[string]any{"iss": []string{people.URL, cluster.URL}}), "", "issuer"},
		"an issuer with a slash at its end": {people.Token(map[string]any{"iss": people.URL + "/"}), "", "issuer"},
	} {
		claims, err := all.Verify(t.Context(), c.token)
		var refused *oidc.Refusal
		if err == nil && claims.Member() != c.member || err != nil && (!errors.As(err, &refused) || refused.Outcome != c.outcome) {
			t.Errorf("%s: got %s, %v, want %s%s", name, claims.Member(), err, c.member, c.outcome)
		}
	}
}

// both are two issuers, each with the audience that its tokens have.
func both(t *testing.T, issuers ...*oidctest.Issuer) (all oidc.Issuers) {
	t.Helper()
	for _, i := range issuers {
		v, err := oidc.New(oidc.Config{URL: i.URL, Audiences: []string{i.Audience}, GroupsClaim: "groups"})
		if err != nil {
			t.Fatal(err)
		}
		v.SetSpacing(0)
		all = append(all, v)
	}
	return all
}

// TestOneOfTwoIssuersIsAway: the tokens of the other one are taken, its rotated keys too, and
// nobody asks the one for them.
func TestOneOfTwoIssuersIsAway(t *testing.T) {
	t.Parallel()
	here, away := oidctest.New(t), oidctest.Absent(t)
	all := both(t, here, away)
	verify := func(token string) error {
		_, err := all.Verify(t.Context(), token)
		return err
	}
	if err := verify(here.Token(nil)); err != nil {
		t.Errorf("the issuer that is there: %v", err)
	}
	var unavailable *oidc.Unavailable
	if err := verify(away.Token(nil)); !errors.As(err, &unavailable) || unavailable.Issuer != away.URL {
		t.Errorf("the issuer that is away: %v", err)
	}
	before := here.Token(nil)
	here.Rotate()
	if err := verify(here.Token(nil)); err != nil {
		t.Errorf("a rotated key: %v", err)
	}
	if err := verify(before); err == nil {
		t.Error("a key from before is taken")
	}
	asked := here.Asked(oidctest.KeysPath)
	away.Start()
	if err := verify(away.Token(nil)); err != nil {
		t.Errorf("the issuer that has come: %v", err)
	}
	if again := here.Asked(oidctest.KeysPath); again != asked {
		t.Errorf("the other issuer was asked %d times more", again-asked)
	}
}

// TestIssuersAreDistinct by all that a login's address has of them.
func TestIssuersAreDistinct(t *testing.T) {
	t.Parallel()
	for _, urls := range [][]string{{"https://a", "https://a"}, {"https://a/x", "https://a/x/"}, {"http://localhost", "https://localhost"}} {
		var all oidc.Issuers
		for _, url := range urls {
			i, err := oidc.New(oidc.Config{URL: url, Audiences: []string{"x"}})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, i)
		}
		if all.Check() == nil {
			t.Errorf("%q are two issuers", urls)
		}
		if err := all[:1].Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestNamesOfIssuers stand in addresses as they are.
func TestNamesOfIssuers(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://login.example.com": "login.example.com", "https://sso.example.com/realms/a_b/": "sso.example.com/realms/a_b", "http://localhost:5556/dex": "localhost:5556/dex",
		"https://a/{x}": "", "https://a//b": "", "https://a/../b": "", "https://a/.": "", "https://a/%2e": "", "https://[::1]:80": "", "https://a/b%2fc": "", "https://a/b c": "",
	} {
		if err := oidc.CheckLogin(url); (err == nil) != (want != "") || err == nil && oidc.NameOf(url) != want {
			t.Errorf("%s is %s, %v, want %q", url, oidc.NameOf(url), err, want)
		}
	}
}
