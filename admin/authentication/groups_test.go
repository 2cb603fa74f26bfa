package authentication_test

import (
	"testing"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
)

// TestGroupsBelongToTheirIssuer: who is in a group at one issuer is in none at another, and no
// name of a group is read as that of another issuer's.
func TestGroupsBelongToTheirIssuer(t *testing.T) {
	t.Parallel()
	other := oidctest.New(t)
	k := newKnown(t, func(c *authentication.Config) {
		issuer, err := oidc.New(oidc.Config{URL: other.URL, Audiences: []string{"understudy"}, GroupsClaim: "roles"})
		if err != nil {
			t.Fatal(err)
		}
		c.Issuers = append(c.Issuers, issuer)
	})
	mine, theirs := "group:"+k.issuer.URL+"#ops", "group:"+other.URL+"#ops"
	groups := map[string]any{"groups": []string{"ops", other.URL + "#ops", theirs}, "roles": []string{"ops"}}
	who, err := k.Authenticate(request(nil, "Bearer "+k.issuer.Token(groups)))
	if err != nil || !who.Is(mine) || who.Is(theirs) || who.Is("group:ops") {
		t.Errorf("a principal of the first issuer is %+v, %v", who, err)
	}
	who, err = k.Authenticate(request(nil, "Bearer "+other.Token(groups)))
	if err != nil || who.Is(mine) || !who.Is(theirs) || len(who.Groups) != 1 || who.Member != "oidc:"+other.URL+"#ann" {
		t.Errorf("a principal of the second issuer is %+v, %v", who, err)
	}
	if err := access.CheckMember("group:ops"); err == nil {
		t.Error("a group of no issuer is a member")
	}
	for _, member := range []string{mine, theirs} {
		if err := access.CheckMember(member); err != nil {
			t.Errorf("%s: %v", member, err)
		}
	}
}
