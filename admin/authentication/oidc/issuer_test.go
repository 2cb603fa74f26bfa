package oidc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
)

// verifying returns what takes the tokens of an issuer.
func verifying(t *testing.T, i *oidctest.Issuer) *oidc.Issuer {
	t.Helper()
	v, err := oidc.New(oidc.Config{URL: i.URL, Audiences: []string{"other", i.Audience}, GroupsClaim: "groups"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// outcome is how a token is taken: ok, the outcome of a refusal, or unavailable.
func outcome(t *testing.T, v *oidc.Issuer, token string) string {
	t.Helper()
	_, err := v.Verify(t.Context(), token)
	var refused *oidc.Refusal
	var away *oidc.Unavailable
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &away):
		return "unavailable"
	case !errors.As(err, &refused):
		t.Fatalf("an error of no kind: %v", err)
	}
	if strings.Contains(refused.Text, token) {
		t.Errorf("the refusal quotes the token: %s", refused.Text)
	}
	return refused.Outcome
}

func TestTokens(t *testing.T) {
	t.Parallel()
	issuer, stranger := oidctest.New(t), oidctest.New(t)
	v := verifying(t, issuer)
	now := time.Now()
	header := func(name string, value any) map[string]any {
		h := map[string]any{"alg": "RS256", "kid": issuer.Key().ID}
		h[name] = value
		return h
	}
	hmac := oidctest.HMAC(issuer.Key().PublicPEM())
	sameName := stranger.Key()
	sameName.ID = issuer.Key().ID
	good := issuer.Token(nil)
	for name, c := range map[string]struct{ token, want string }{
		"good":                        {good, "ok"},
		"one audience of several":     {issuer.Token(map[string]any{"aud": []string{"x", "understudy"}}), "ok"},
		"another audience":            {issuer.Token(map[string]any{"aud": "understudy-dev"}), "audience"},
		"no audience":                 {issuer.Token(map[string]any{"aud": nil}), "audience"},
		"expired":                     {issuer.Token(map[string]any{"exp": now.Add(-time.Minute).Unix()}), "expired"},
		"expired a moment ago":        {issuer.Token(map[string]any{"exp": now.Add(-time.Second).Unix()}), "ok"},
		"no expiry":                   {issuer.Token(map[string]any{"exp": nil}), "expired"},
		"not good yet":                {issuer.Token(map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}), "expired"},
		"good in an hour":             {issuer.Token(map[string]any{"nbf": now.Add(time.Hour).Unix()}), "malformed"},
		"a clock that is ahead":       {issuer.Token(map[string]any{"nbf": now.Add(5 * time.Second).Unix()}), "ok"},
		"another issuer":              {issuer.Token(map[string]any{"iss": "https://issuer.example.com"}), "issuer"},
		"no issuer":                   {issuer.Token(map[string]any{"iss": nil}), "issuer"},
		"no subject":                  {issuer.Token(map[string]any{"sub": nil}), "malformed"},
		"a subject with a line break": {issuer.Token(map[string]any{"sub": "ann\nbob"}), "malformed"},
		"groups that are a number":    {issuer.Token(map[string]any{"groups": 7}), "malformed"},
		"a logout":                    {issuer.Token(map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}), "malformed"},
		"a key of a stranger":         {stranger.Key().Sign(issuer.Claims(nil)), "unavailable"}, // the keys were read just now
		"a stranger by its name":      {sameName.Sign(issuer.Claims(nil)), "signature"},
		"alg none":                    {oidctest.Assemble(header("alg", "none"), issuer.Claims(nil), func([]byte) []byte { return nil }), "malformed"},
		"alg None":                    {oidctest.Assemble(header("alg", "None"), issuer.Claims(nil), func([]byte) []byte { return nil }), "malformed"},
		"the public key as a secret":  {oidctest.Assemble(header("alg", "HS256"), issuer.Claims(nil), hmac), "malformed"},
		"HS256 signed, RS256 named":   {oidctest.Assemble(header("alg", "RS256"), issuer.Claims(nil), hmac), "signature"},
		"a key in the header":         {oidctest.Assemble(header("jwk", stranger.Key().JWK()), issuer.Claims(nil), signer(t, stranger.Key())), "signature"},
		"an extension to understand":  {oidctest.Assemble(header("crit", []string{"x"}), issuer.Claims(nil), signer(t, issuer.Key())), "signature"},
		"claims that were changed":    {changed(good, issuer.Claims(map[string]any{"sub": "bob"})), "signature"},
		"no key named":                {oidctest.Assemble(map[string]any{"alg": "RS256"}, issuer.Claims(nil), signer(t, issuer.Key())), "ok"},
		"oversized":                   {issuer.Token(map[string]any{"x": strings.Repeat("x", 16<<10)}), "malformed"},
		"words":                       {"a.b.c", "malformed"},
		"nothing":                     {"..", "malformed"},
	} {
		if got := outcome(t, v, c.token); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// signer signs by RS256.
func signer(t *testing.T, k oidctest.Key) func([]byte) []byte {
	t.Helper()
	return k.Signature
}

// changed is a token with other claims under the same signature.
func changed(token string, claims map[string]any) string {
	parts := strings.Split(token, ".")
	other := strings.Split(oidctest.Assemble(nil, claims, func([]byte) []byte { return nil }), ".")
	return parts[0] + "." + other[1] + "." + parts[2]
}

func TestClaims(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	v := verifying(t, issuer)
	for name, c := range map[string]struct {
		groups any
		want   []string
	}{
		"a list":         {[]string{"ops", "Domain Users"}, []string{"ops", "Domain Users"}},
		"a text":         {"ops", []string{"ops"}},
		"none":           {nil, nil},
		"unprintable":    {[]string{"a\x00b", "", "\u202eops", "ops", strings.Repeat("g", 300)}, []string{"ops"}},
		"an empty list":  {[]string{}, nil},
		"null in a list": {[]any{nil, "ops"}, []string{"ops"}},
	} {
		claims, err := v.Verify(t.Context(), issuer.Token(map[string]any{"groups": c.groups, "sub": "system:serviceaccount:ci:deploy"}))
		if err != nil || !reflect.DeepEqual(claims.Groups, c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, claims.Groups, err, c.want)
		}
		if want := "oidc:" + issuer.URL + "#system:serviceaccount:ci:deploy"; claims.Member() != want {
			t.Errorf("%s: the member is %s, want %s", name, claims.Member(), want)
		}
	}
}

// TestKeysRotate: a token of a new key has the keys read again, and one of a key that the
// issuer has no more is refused from then on.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	v := verifying(t, issuer)
	v.SetSpacing(0)
	before := issuer.Token(nil)
	if got := outcome(t, v, before); got != "ok" {
		t.Fatalf("the first key: %s", got)
	}
	issuer.Rotate()
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Errorf("the second key: %s", got)
	}
	if got := outcome(t, v, before); got != "signature" {
		t.Errorf("the first key after the second: %s", got)
	}
	issuer.SetKeys(issuer.NewEC("elliptic"), issuer.Key())
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Errorf("a key of P-256: %s", got)
	}
	// An issuer in development starts anew with another key under the same ID.
	issuer.SetKeys(issuer.NewEC("elliptic"))
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Errorf("another key by the same ID: %s", got)
	}
}

// TestANewKeyIsUnknownForAWhile: just after the keys were read, nobody knows whether a key is a new
// one; later it is found out.
func TestANewKeyIsUnknownForAWhile(t *testing.T) {
	t.Parallel()
	issuer, stranger := oidctest.New(t), oidctest.New(t)
	v := verifying(t, issuer)
	v.SetSpacing(time.Hour)
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Fatalf("the first key: %s", got)
	}
	issuer.Rotate()
	if got := outcome(t, v, issuer.Token(nil)); got != "unavailable" {
		t.Errorf("a key that has just been made: %s", got)
	}
	v.SetSpacing(0)
	if got := outcome(t, v, stranger.Key().Sign(issuer.Claims(nil))); got != "signature" {
		t.Errorf("a key that the issuer was asked for, and does not have: %s", got)
	}
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Errorf("the new key: %s", got)
	}
}

// TestUnknownKeysAskSeldom: who sends tokens of keys that nobody has does not make the
// server ask for each.
func TestUnknownKeysAskSeldom(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	v := verifying(t, issuer)
	v.SetSpacing(time.Hour)
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Fatal(got)
	}
	var senders sync.WaitGroup
	for n := range 50 {
		senders.Go(func() {
			key := issuer.NewEC(fmt.Sprint("unknown", n))
			if got := outcome(t, v, key.Sign(issuer.Claims(nil))); got != "unavailable" {
				t.Errorf("an unknown key: %s", got)
			}
		})
	}
	senders.Wait()
	if got := issuer.Asked(oidctest.KeysPath); got != 1 {
		t.Errorf("the keys were asked for %d times, want once", got)
	}
}

// TestTheIssuerIsAway at the start, later, and comes back.
func TestTheIssuerIsAway(t *testing.T) {
	t.Parallel()
	issuer := oidctest.Absent(t)
	v := verifying(t, issuer)
	v.SetSpacing(0)
	if got := outcome(t, v, issuer.Token(nil)); got != "unavailable" {
		t.Errorf("before the issuer is there: %s", got)
	}
	issuer.Start()
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Errorf("when it is there: %s", got)
	}
	issuer.SetDown(true)
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Errorf("when it is away again: %s", got)
	}
	if got := outcome(t, v, issuer.Token(map[string]any{"exp": 1})); got != "expired" {
		t.Errorf("an expired token when it is away: %s", got)
	}
	issuer.Rotate()
	if got := outcome(t, v, issuer.Token(nil)); got != "unavailable" {
		t.Errorf("a new key when it is away: %s", got)
	}
	issuer.SetDown(false)
	if got := outcome(t, v, issuer.Token(nil)); got != "ok" {
		t.Errorf("when it is back: %s", got)
	}
	if v.Failures() < 2 {
		t.Errorf("%d failures are counted", v.Failures())
	}
}

// TestBearerToken: the configuration and the keys are read with a token, which is asked for each
// time. The exchange of a code has none. While there is no token, the last keys stay.
func TestBearerToken(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	issuer.SetBearer("t0k3n-1")
	var token string
	var problem error
	var log bytes.Buffer
	v, err := oidc.New(oidc.Config{
		URL: issuer.URL, Audiences: []string{issuer.Audience}, Client: &oidc.Client{ID: issuer.Audience},
		Token: func() (string, error) { return token, problem }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	v.SetSpacing(0)
	expect := func(when, want string) {
		t.Helper()
		if got := outcome(t, v, issuer.Token(nil)); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	token = "t0k3n-0"
	expect("another token", "unavailable")
	token = "t0k3n-1"
	expect("the token", "ok")
	issuer.SetBearer("t0k3n-2")
	issuer.Rotate()
	expect("a token that was rotated", "unavailable")
	token = "t0k3n-2"
	expect("the next token", "ok")
	problem = errors.New("the file is gone")
	expect("the last keys, without a token", "ok")
	issuer.Rotate()
	expect("new keys, without a token", "unavailable")
	if text := log.String(); !strings.Contains(text, "401") || strings.Contains(text, "t0k3n") {
		t.Errorf("the log says %s", text)
	}
	// A code that nobody was given: the issuer answers it, and not the token.
	if _, _, err := v.Exchange(t.Context(), oidc.Attempt{}, "code"); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("the exchange: %v", err)
	}
}

// TestBadIssuers: answers that are huge, never end, lead elsewhere or are nonsense are as
// if there was none.
func TestBadIssuers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		reply http.HandlerFunc
	}{
		"huge keys": {oidctest.KeysPath, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"keys":[`)
			for range 3 << 20 {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
			}
		}},
		"huge discovery": {oidctest.DiscoveryPath, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 3<<20))
		}},
		"a redirect": {oidctest.KeysPath, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, oidctest.TokenPath, http.StatusFound)
		}},
		"no JSON": {oidctest.KeysPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }},
		"no keys": {oidctest.KeysPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"keys":[]}`) }},
		"a secret key": {oidctest.KeysPath, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"keys":[{"kty":"oct","k":"AAAA","kid":"x"}]}`)
		}},
		"another issuer": {oidctest.DiscoveryPath, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"issuer":"https://issuer.example.com","jwks_uri":"https://issuer.example.com/keys"}`)
		}},
		"keys over http": {oidctest.DiscoveryPath, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := oidctest.New(t)
			if c.reply == nil {
				c.reply = func(w http.ResponseWriter, _ *http.Request) {
					_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"http://192.0.2.1/keys"}`, issuer.URL)
				}
			}
			issuer.SetReply(c.path, c.reply)
			v := verifying(t, issuer)
			if got := outcome(t, v, issuer.Token(nil)); got != "unavailable" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestASlowIssuerHoldsNobody: who leaves is let go, and the attempt ends by itself.
func TestASlowIssuerHoldsNobody(t *testing.T) {
	t.Parallel()
	issuer, release := oidctest.New(t), make(chan struct{})
	issuer.SetReply(oidctest.DiscoveryPath, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	v := verifying(t, issuer)
	if got := outcome(t, v, issuer.Token(nil)); got != "unavailable" {
		t.Errorf("got %s", got)
	}
}

func TestIssuerURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"https://issuer.example.com": true, "https://issuer.example.com/realms/x": true, "http://localhost:5556/dex": true, "http://[::1]:80": true,
		"http://issuer.example.com": false, "issuer.example.com": false, "https://a@b": false, "https://a?b": false, "": false, "ftp://a": false,
		"http://127.0.0.1.example.com": false,
	} {
		if err := oidc.CheckURL(url); (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}
}
