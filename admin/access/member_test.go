package access

import (
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// TestSPIFFEIDs: those that the standard forbids are no members (SPIFFE-ID, section 2).
func TestSPIFFEIDs(t *testing.T) {
	for member, want := range map[string]bool{
		"spiffe://example.org/ops":                  true,
		"spiffe://example.org/ns/ci/sa/deploy_2.X-": true,
		"spiffe://1_2-3.org/...":                    true,
		"spiffe://example.org":                      false,
		"spiffe://example.org/":                     false,
		"spiffe://example.org//ops":                 false,
		"spiffe://example.org/ops/":                 false,
		"spiffe://evil@example.org/ops":             false,
		"spiffe://example.org:80/ops":               false,
		"spiffe://example.org/ops?x=1":              false,
		"spiffe://example.org/ops#x":                false,
		"spiffe://example.org/a/../ops":             false,
		"spiffe://example.org/./ops":                false,
		"spiffe://example.org/%6fps":                false,
		"spiffe://example.org/ärger":                false,
		"spiffe://EXAMPLE.org/ops":                  false,
		"SPIFFE://example.org/ops":                  false,
		"spiffe:///ops":                             false,
		"spiffe:/example.org/ops":                   false,
	} {
		if err := CheckMember(member); (err == nil) != want {
			t.Errorf("%s: %v", member, err)
		}
	}
}

// FuzzMember: a member with the scheme of SPIFFE is an ID by its standard, and none of them is too
// large.
func FuzzMember(f *testing.F) {
	for _, seed := range []string{"spiffe://example.org/ops", "spiffe://a@b:1/%2e?x#y", "cert:a b", "oidc:https://a#b", "group:", AllAuthenticated} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, member string) {
		if CheckMember(member) != nil {
			return
		}
		if strings.HasPrefix(member, "spiffe") {
			if _, err := spiffeid.FromString(member); err != nil {
				t.Errorf("%q: %v", member, err)
			}
		}
		if len(member) > MaxMember || strings.ContainsFunc(member, unprintable) {
			t.Errorf("%q is a member", member)
		}
	})
}
