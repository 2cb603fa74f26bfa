package credentials_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/admin/authentication/oidc/oidctest"
	"understudy/cmd/understudy/credentials"
)

// settings are those of a login at a test's issuer.
func settings(i *oidctest.Issuer) credentials.Settings {
	return credentials.Settings{Issuer: i.URL, ClientID: i.Audience, Scopes: []string{"openid", "offline_access"}}
}

// login logs in, and lets the user do something when the code is shown.
func login(t *testing.T, s credentials.Settings, user func()) (*credentials.Login, error) {
	t.Helper()
	return credentials.Device(t.Context(), local, s, func(code credentials.Code) {
		if code.UserCode != "WDJB-MJHT" || code.URL == "" || !strings.HasSuffix(code.URLComplete, "WDJB-MJHT") {
			t.Errorf("the code is shown as %+v", code)
		}
		user()
	})
}

// A login is kept for its server alone, in a file that nobody else can read; a token that
// has expired is refreshed once, however many commands need it.
func TestLogin(t *testing.T) {
	alone(t)
	issuer := oidctest.New(t)
	device := issuer.ServeDevice()
	device.SetLifetime(time.Second) // it has expired already: the next call comes too early
	l, err := login(t, settings(issuer), device.Confirm)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	checkFiles(t)
	for addr, want := range map[string]bool{local: true, "http://" + local + "/": true, "127.0.0.1:8182": false, "https://" + local: false} {
		if found, err := credentials.Saved(addr); err != nil || (found != nil) != want {
			t.Errorf("%s has a login: %v, %v; want %v", addr, found != nil, err, want)
		}
	}

	device.SetLifetime(time.Hour)
	asked := issuer.Asked(oidctest.TokenPath)
	var commands sync.WaitGroup
	tokens := make(chan string, 8)
	for range cap(tokens) {
		commands.Go(func() {
			token, err := credentials.Source{}.Read(local)
			if err != nil {
				t.Error(err)
				return
			}
			value, err := token.Bearer(t.Context())
			if err != nil || value == l.Token {
				t.Errorf("the token was not refreshed: %v", err)
			}
			tokens <- value
		})
	}
	commands.Wait()
	if n := issuer.Asked(oidctest.TokenPath) - asked; n != 1 {
		t.Errorf("the issuer was asked for a token %d times, want 1", n)
	}
	checkFiles(t)

	if was, err := credentials.Forget(local); err != nil || !was {
		t.Errorf("logging out: %v, %v", was, err)
	}
	if found, err := credentials.Saved(local); err != nil || found != nil {
		t.Errorf("after it there is a login: %v, %v", found, err)
	}
	if got := credentials.SavedSettings(local); got.Issuer != issuer.URL || got.ClientID != issuer.Audience {
		t.Errorf("the settings are lost: %+v", got)
	}
	if was, err := credentials.Forget(local); err != nil || was {
		t.Errorf("logging out again: %v, %v", was, err)
	}
}

// checkFiles checks that nobody else can read what is kept.
func checkFiles(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(os.Getenv("XDG_CONFIG_HOME"), func(path string, d os.DirEntry, err error) error {
		if err != nil || path == os.Getenv("XDG_CONFIG_HOME") {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("%s was left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What goes wrong has an error that says what to do, and quotes no token.
func TestLoginFails(t *testing.T) {
	alone(t)
	issuer := oidctest.New(t)
	device := issuer.ServeDevice()
	with := func(change func(*credentials.Settings)) credentials.Settings {
		s := settings(issuer)
		change(&s)
		return s
	}
	bare := oidctest.New(t)
	for _, test := range []struct {
		name     string
		settings credentials.Settings
		user     func()
		want     string
	}{
		{"declined", settings(issuer), device.Decline, "it was declined in the browser"},
		{"no device flow", settings(bare), nil, "no device authorization flow"},
		{"another client", with(func(s *credentials.Settings) { s.ClientID = "other" }), nil, "there is no such client"},
		{"another name", with(func(s *credentials.Settings) { s.Issuer += "/" }), nil, "it calls itself"},
		{"no TLS", with(func(s *credentials.Settings) { s.Issuer = "http://issuer.example" }), nil, "begins with https://"},
		{"no issuer", with(func(s *credentials.Settings) { s.Issuer = issuer.URL + "/elsewhere" }), nil, "no OpenID Connect issuer"},
		{"no file", with(func(s *credentials.Settings) { s.CACert = "/does/not/exist" }), nil, "--issuer-ca-cert"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := login(t, test.settings, func() { test.user() })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if l != nil {
				t.Error("there is a login all the same")
			}
		})
	}
}

// With an audience the access token is what the server is shown.
func TestAudience(t *testing.T) {
	alone(t)
	issuer := oidctest.New(t)
	device := issuer.ServeDevice()
	s := settings(issuer)
	s.Audience = "https://understudy.example.com"
	l, err := login(t, s, device.Confirm)
	if err != nil {
		t.Fatal(err)
	}
	if device.Audience() != s.Audience || !strings.Contains(l.Token, ".") || time.Until(l.Expires) < time.Minute {
		t.Errorf("the audience asked for is %q, the token ends %v", device.Audience(), l.Expires)
	}
}

// An issuer that answers nonsense does not end the command.
func TestHostileIssuer(t *testing.T) {
	alone(t)
	for name, answer := range map[string]string{
		"a negative interval":  `{"device_code":"d","user_code":"u","verification_uri":"https://a","interval":-1}`,
		"no code":              `{"verification_uri":"https://a"}`,
		"no page":              `{"device_code":"d","user_code":"u","verification_uri":"javascript:alert(1)"}`,
		"a code with controls": `{"device_code":"d","user_code":"u\u001b[2J","verification_uri":"https://a"}`,
		"no JSON":              `nonsense`,
		"nothing":              `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			issuer := oidctest.New(t)
			issuer.ServeDevice()
			issuer.SetReply(oidctest.DevicePath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := credentials.Device(ctx, local, settings(issuer), func(credentials.Code) { cancel() })
			if err == nil || strings.HasPrefix(name, "a negative") != errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A login that cannot be renewed says so, and one that others can read or that is damaged
// is not used.
func TestLoginsThatAreNotGood(t *testing.T) {
	alone(t)
	issuer := oidctest.New(t)
	device := issuer.ServeDevice()
	device.SetLifetime(-time.Minute)
	l, err := login(t, settings(issuer), device.Confirm)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	device.Revoke()
	token, err := credentials.Source{}.Read(local)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := token.Bearer(t.Context()); err == nil || !strings.Contains(err.Error(), "`understudy login` logs in again") ||
		strings.Contains(err.Error(), l.Token) || strings.Contains(err.Error(), l.RefreshToken) {
		t.Errorf("a refresh token that is not good: %v", err)
	}
	files, err := filepath.Glob(os.Getenv("XDG_CONFIG_HOME") + "/understudy/logins/*.json")
	if err != nil || len(files) != 1 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	if err := os.Chmod(files[0], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (credentials.Source{}).Read(local); err == nil || !strings.Contains(err.Error(), "can be read by others") {
		t.Errorf("a file that others can read: %v", err)
	}
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (credentials.Source{}).Read(local); err == nil || !strings.Contains(err.Error(), "understudy logout") {
		t.Errorf("a damaged file: %v", err)
	}
	if was, err := credentials.Forget(local); err != nil || !was {
		t.Errorf("logging out of it: %v, %v", was, err)
	}
	if token, err := (credentials.Source{}).Read(local); err != nil || token.Found() {
		t.Errorf("after that: %v, %v", token.Found(), err)
	}
}
