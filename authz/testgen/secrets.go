package testgen

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"understudy/authz/decisionlog"
)

// word stands for a credential whose value makes no difference.
const word = "example"

// token is a JSON Web Token that a test makes of its claims.
type token struct {
	// prefix stands before it, such as "Bearer ".
	prefix string
	claims any
}

// jwt is what a token looks like.
var jwt = regexp.MustCompile(`^(.{0,16}?)(eyJ[A-Za-z0-9_-]*|e30)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*$`)

// secretName is what the name of a parameter or a field of a body looks like whose value is a
// secret.
var secretName = regexp.MustCompile(`(?i)^(.*[_-])?(token|secret|passw(or)?d|pwd|key|apikey|signature|sig|credential|assertion|code|session|sid|otp|pin)s?$`)

// clean replaces the credentials in the document. It reports false if the difference needs
// one as it is; which says where.
func (s *subject) clean(ctx context.Context) (where string, ok bool) {
	return s.cleanValue(ctx, s.document, nil, func(v any) { s.document = v })
}

func (s *subject) cleanValue(ctx context.Context, value any, path []string, put func(any)) (where string, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if where, ok = s.cleanValue(ctx, v[name], append(path, name), func(changed any) { v[name] = changed }); !ok {
				return where, false
			}
		}
	case []any:
		for i := range v {
			if where, ok = s.cleanValue(ctx, v[i], path, func(changed any) { v[i] = changed }); !ok {
				return where, false
			}
		}
	case string:
		return s.cleanText(ctx, v, path, put)
	}
	return "", true
}

// cleanText replaces a text if it is a credential, or has one in its query.
func (s *subject) cleanText(ctx context.Context, text string, path []string, put func(any)) (where string, ok bool) {
	name := ""
	if len(path) > 0 {
		name = path[len(path)-1]
	}
	where = strings.Join(path, ".")
	var others []any
	switch parts := jwt.FindStringSubmatch(text); {
	case parts != nil:
		others = []any{parts[1] + word, word}
		if minted, ok := mint(parts); ok {
			others = append(others, minted)
		}
	case decisionlog.IsCredential(name), secretName.MatchString(name), strings.HasPrefix(text, "Bearer "), strings.HasPrefix(text, "Basic "):
		scheme, _, found := strings.Cut(text, " ")
		others = []any{word}
		if found {
			others = append(others, scheme+" "+word)
		}
	case strings.Contains(text, "?"):
		before, _, _ := strings.Cut(text, "?")
		others = []any{before, before + "?" + word}
	default:
		return "", true
	}
	for _, other := range others {
		put(other)
		if s.holdsMinted(ctx) {
			if minted, ok := other.(*token); ok {
				s.minimiseClaims(ctx, minted)
			}
			return "", true
		}
	}
	put(text)
	return where, false
}

// mint returns a token with the claims of another one.
func mint(parts []string) (*token, bool) {
	payload, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil {
		return nil, false
	}
	var claims map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(payload)))
	decoder.UseNumber()
	if decoder.Decode(&claims) != nil {
		return nil, false
	}
	return &token{prefix: parts[1], claims: claims}, true
}

// text is the token as the policies see it while the document is minimised; its test makes
// the same.
func (t *token) text() string {
	claims, err := json.Marshal(t.claims)
	if err != nil {
		return t.prefix
	}
	return t.prefix + strings.Join([]string{
		base64.RawURLEncoding.EncodeToString([]byte(tokenHeader)), base64.RawURLEncoding.EncodeToString(claims), tokenSignature,
	}, ".")
}

// The parts of a token that no test is about. Nobody verifies it.
const (
	tokenHeader    = `{"alg":"none"}`
	tokenSignature = "c2lnbmF0dXJl"
)

// holdsMinted is holds of a document in which there may be tokens to make.
func (s *subject) holdsMinted(ctx context.Context) bool {
	kept := s.document
	s.document = minted(kept)
	defer func() { s.document = kept }()
	return s.holds(ctx)
}

// minted returns a document with the texts of its tokens.
func minted(value any) any {
	return replaced(value, func(leaf any) any {
		if t, ok := leaf.(*token); ok {
			return t.text()
		}
		return leaf
	})
}

// minimiseClaims takes out of a token the claims that make no difference: who had it is among
// them, mostly. A text that could be another one becomes a word.
func (s *subject) minimiseClaims(ctx context.Context, t *token) {
	holds := func() bool { return s.holdsMinted(ctx) }
	reduction{holds: holds}.reduce(t.claims, nil, func(any) {})
	claims, _ := t.claims.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		old := claims[name]
		if _, isText := old.(string); isText {
			if claims[name] = word; !holds() {
				claims[name] = old
			}
		}
	}
}
