package decisionlog

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	"understudy/authz/diagnostics"
)

// hidden stands for what is not shown.
const hidden = "***"

// minSecret is the length from which a credential is also hidden where a policy
// repeats it, in bytes. A shorter one would hide ordinary words.
const minSecret = 8

// credentialHeaders carry what proves an identity: who reads it can use it.
var credentialHeaders = []string{
	"authorization", "proxy-authorization", "cookie", "cookie2", "set-cookie", "set-cookie2",
	"x-api-key", "x-auth-token", "x-access-token", "x-id-token", "x-amz-security-token", "x-forwarded-access-token",
	"x-forwarded-id-token", "x-amzn-oidc-accesstoken", "x-amzn-oidc-data", "x-goog-iap-jwt-assertion",
	"cf-access-jwt-assertion", "x-ms-token-aad-access-token", "x-ms-token-aad-id-token", "x-vault-token", "private-token",
	"x-csrf-token", "x-xsrf-token", "apikey", "api-key", "authentication", "x-authorization", "dpop", "x-gitlab-token", "x-hub-signature-256", "x-secret",
	"x-session-id", "x-session-token", "x-forwarded-authorization", "x-jwt-assertion",
}

// credentials are the names of the headers that are hidden in events. It is immutable
// once made, and shared by all events.
type credentials map[string]bool

func newCredentials(show []string) credentials {
	c := make(credentials)
	for _, name := range credentialHeaders {
		c[name] = true
	}
	for _, name := range show {
		delete(c, headerName(name))
	}
	return c
}

// IsCredential reports whether a header carries what proves an identity. Its name has no case.
func IsCredential(header string) bool { return slices.Contains(credentialHeaders, headerName(header)) }

// headerName is the form in which names are compared: headers have no case, and
// metadata write a dash as an underscore.
func headerName(name string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
}

// visit calls found for each credential in a tree: what stands under the name of a
// header, wherever that is, and the value of an object that has the name as its key,
// as the elements of Envoy's headerMap do.
func (c credentials) visit(node any, at pointer, found func(holder map[string]any, key string, at pointer)) {
	switch n := node.(type) {
	case []any:
		for i, element := range n {
			c.visit(element, at.below(strconv.Itoa(i)), found)
		}
	case map[string]any:
		named := c.named(n)
		for _, key := range slices.Sorted(maps.Keys(n)) {
			if c[headerName(key)] || named && strings.Contains(strings.ToLower(key), "value") {
				found(n, key, at.below(key))
				continue
			}
			c.visit(n[key], at.below(key), found)
		}
	}
}

// named reports whether an object is a header of its own, with its name under key or
// name.
func (c credentials) named(object map[string]any) bool {
	for _, field := range []string{"key", "name"} {
		if name, ok := object[field].(string); ok && c[headerName(name)] {
			return true
		}
	}
	return false
}

// hide replaces the credentials of an event, and those that were known before in what
// the policy made of them. It runs after the masks: what a mask put in place of a value
// stays, and what it left is hidden.
func (c credentials) hide(e *event, known secrets) {
	tree := e.tree()
	c.visit(tree, nil, func(holder map[string]any, key string, at pointer) {
		if value := holder[key]; value != nil && value != "" {
			holder[key] = hidden
			e.Masked = noted(e.Masked, at)
		}
	})
	for _, part := range []string{partResult, partLabels} {
		if made, ok := tree[part]; ok {
			tree[part] = known.replace(made, pointer{part}, func(at pointer) { e.Masked = noted(e.Masked, at) })
		}
	}
	e.setTree(tree)
	if e.Error != nil {
		e.Error.Message = known.text(e.Error.Message)
	}
}

// secrets replaces known credentials in texts. It is for what a policy returns, not for
// the request: a client would choose what is hidden of its own request. The zero value
// replaces nothing.
//
// For example a policy that denies with {"reason": "bad token eyJhbGciOi…"} is logged
// with "bad token ***".
type secrets struct{ replacer *strings.Replacer }

// in returns the credentials in a tree. It is called before the masks, since a mask may
// remove the header while the policy has repeated its value elsewhere. Raw headers are
// base64 in the input document.
func (c credentials) in(tree map[string]any) secrets {
	var texts []string
	c.visit(tree, nil, func(holder map[string]any, key string, _ pointer) {
		texts = appendTexts(texts, holder[key])
	})
	var all []string
	for _, text := range texts {
		all = appendSecrets(all, text)
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			all = appendSecrets(all, string(raw))
		}
	}
	if len(all) == 0 {
		return secrets{}
	}
	// Of two that begin at one place, the longer is replaced.
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, secret := range all {
		pairs = append(pairs, secret, hidden)
	}
	return secrets{strings.NewReplacer(pairs...)}
}

// appendTexts appends all texts of a value.
func appendTexts(texts []string, value any) []string {
	switch v := value.(type) {
	case string:
		return append(texts, v)
	case []any:
		for _, element := range v {
			texts = appendTexts(texts, element)
		}
	case map[string]any:
		for _, element := range v {
			texts = appendTexts(texts, element)
		}
	}
	return texts
}

// appendSecrets appends what a header's value gives away: the value, the credentials
// after a scheme, what stands in the scheme's place, and the values of cookies.
func appendSecrets(all []string, value string) []string {
	parts := []string{value}
	if scheme, token, ok := strings.Cut(value, " "); ok {
		parts = append(parts, scheme, token)
	}
	for pair := range strings.SplitSeq(value, ";") {
		if name, text, ok := strings.Cut(pair, "="); ok && !cookieAttribute[strings.ToLower(strings.TrimSpace(name))] {
			parts = append(parts, text)
		}
	}
	for _, p := range parts {
		if p = strings.Trim(p, ` "`); len(p) < minSecret {
			continue
		}
		all = append(all, p)
		// Labels have no control characters, and so have another text in their place.
		if clean := diagnostics.Clean(p); clean != p {
			all = append(all, clean)
		}
		// A policy that formats a list or an object quotes what is in it.
		if quoted := strconv.Quote(p); len(quoted) > len(p)+2 {
			all = append(all, quoted[1:len(quoted)-1])
		}
	}
	return all
}

// cookieAttribute has what a Set-Cookie says next to the cookie (RFC 6265).
var cookieAttribute = map[string]bool{
	"path": true, "domain": true, "expires": true, "max-age": true, "samesite": true,
}

func (s secrets) text(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// replace returns a value of the event without the secrets in it, and calls changed
// for each text that had one.
func (s secrets) replace(value any, at pointer, changed func(at pointer)) any {
	if s.replacer == nil {
		return value
	}
	switch v := value.(type) {
	case string:
		text := s.text(v)
		if text != v {
			changed(at)
		}
		return text
	case []any:
		for i, element := range v {
			v[i] = s.replace(element, at.below(strconv.Itoa(i)), changed)
		}
	case map[string]any:
		for key, element := range v {
			v[key] = s.replace(element, at.below(key), changed)
		}
	}
	return value
}

// hideIn returns a value that a policy gave, without the secrets in it.
func (s secrets) hideIn(value any) any {
	return s.replace(value, nil, func(pointer) {})
}
