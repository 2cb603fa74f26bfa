package oidc_test

import (
	"testing"

	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
)

// TestNamesForPeople: the first claim that is there, and no address that the issuer has not
// verified.
func TestNamesForPeople(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	v, err := oidc.New(oidc.Config{URL: issuer.URL, Audiences: []string{issuer.Audience}, DisplayClaims: []string{"email", "preferred_username", "name"}})
	if err != nil {
		t.Fatal(err)
	}
	none, err := oidc.New(oidc.Config{URL: issuer.URL, Audiences: []string{issuer.Audience}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"an address":                          {map[string]any{"email": "ann@example.com", "email_verified": true, "name": "Ann"}, "ann@example.com"},
		"verified as a text":                  {map[string]any{"email": "ann@example.com", "email_verified": "true"}, "ann@example.com"},
		"an address that is not verified":     {map[string]any{"email": "boss@example.com", "email_verified": false, "name": "Ann"}, "Ann"},
		"an address of which nothing is said": {map[string]any{"email": "boss@example.com", "preferred_username": "ann", "name": "Ann"}, "ann"},
		"verified by a number":                {map[string]any{"email": "boss@example.com", "email_verified": 1}, ""},
		"verified in capitals":                {map[string]any{"email": "boss@example.com", "email_verified": "TRUE"}, ""},
		"a name that is no text":              {map[string]any{"preferred_username": []string{"ann"}, "name": "Ann"}, "Ann"},
		"nothing":                             {nil, ""},
	} {
		token := issuer.Token(c.claims)
		claims, err := v.Verify(t.Context(), token)
		if err != nil || claims.Display != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, claims.Display, err, c.want)
		}
		if claims, err := none.Verify(t.Context(), token); err != nil || claims.Display != "" {
			t.Errorf("%s, where nothing is asked for: got %q, %v", name, claims.Display, err)
		}
	}
	if got := outcome(t, v, issuer.Token(map[string]any{"Name": "Ann"})); got != "malformed" {
		t.Errorf("a name in another case: %s", got)
	}
}
