package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"understudy/admin/authentication/oidc/oidctest"
)

// TestLoginOfACommand logs in to a server by its issuer: the code is confirmed, the
// commands after it are of that person, its token is refreshed when it has expired, and a
// logout ends that.
func TestLoginOfACommand(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, name := range []string{"UNDERSTUDY_TOKEN", "UNDERSTUDY_TOKEN_FILE", "UNDERSTUDY_ISSUER", "UNDERSTUDY_CLIENT_ID"} {
		t.Setenv(name, "")
	}
	issuer := oidctest.New(t)
	device := issuer.ServeDevice()
	issuer.SetClaims(map[string]any{"sub": "ann", "groups": []string{"platform"}})
	r := startServer(t, func(c *config) {
		c.oidcIssuers, c.owners = []string{issuer.URL + ",audience=" + issuer.Audience}, []string{"group:" + issuer.URL + "#platform"}
	})
	admin := []string{"--admin", r.bound["admin"], "--location", "projects/p1/locations/l1"}
	expect := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errs := runCommand(t, append(args, admin...)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%v ends with %d: %s%s; want %d and %q", args, got, out, errs, code, want)
		}
		if strings.Contains(out+errs, "eyJ") {
			t.Errorf("%v shows a token: %s%s", args, out, errs)
		}
	}

	expect(1, "log in with `understudy login`", "list")
	expect(2, "the first login to a server needs --issuer and --client-id", "login")
	device.SetLifetime(time.Second)
	confirmed := confirmer{shown: make(chan struct{}, 1)}
	go func() {
		<-confirmed.shown
		device.Confirm()
	}()
	var out bytes.Buffer
	if code := run(t.Context(), append([]string{"login", "--issuer", issuer.URL, "--client-id", issuer.Audience}, admin...), nil, &out, &confirmed); code != 0 {
		t.Fatalf("login ends with %d: %s%s", code, out.String(), confirmed.text.String())
	}
	if want := "you are oidc:" + issuer.URL + "#ann at " + r.bound["admin"] + "\n"; out.String() != want {
		t.Errorf("login says %q, want %q", out.String(), want)
	}
	if text := confirmed.text.String(); !strings.Contains(text, "/activate?user_code=WDJB-MJHT\nand confirm the code WDJB-MJHT\n") {
		t.Errorf("login shows %q", text)
	}

	device.SetLifetime(time.Hour)
	expect(0, "GROUPS  group:"+issuer.URL+"#platform", "whoami")
	expect(0, "MAY     dataEditor, viewer, experimenter, committer, editor, owner", "whoami")
	expect(0, "POLICY", "list")
	if asked := issuer.Asked(oidctest.TokenPath); asked < 2 {
		t.Errorf("the token was not refreshed")
	}
	expect(0, "logged out of ", "logout")
	expect(1, "log in with `understudy login`", "list")
	expect(0, "there was no login to ", "logout")
}

// confirmer reads what a login shows, and says when the code is there.
type confirmer struct {
	text  bytes.Buffer
	shown chan struct{}
}

func (c *confirmer) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "confirm the code") {
		defer func() { c.shown <- struct{}{} }()
	}
	return c.text.Write(p)
}

var _ io.Writer = (*confirmer)(nil)

// TestALoginIsNotForAServerThatDoesNotTakeIt: the issuer knows the person, and the server
// wants tokens for somebody else, or none at all.
func TestALoginIsNotForAServerThatDoesNotTakeIt(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	issuer := oidctest.New(t)
	device := issuer.ServeDevice()
	for name, test := range map[string]struct {
		change func(*config)
		want   string
	}{
		"another audience":  {func(c *config) { c.oidcIssuers = []string{issuer.URL + ",audience=other"} }, "the login is not kept"},
		"no authentication": {nil, "has no authentication"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startServer(t, test.change)
			confirmed := confirmer{shown: make(chan struct{}, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				select {
				case <-confirmed.shown:
					device.Confirm()
				case <-ctx.Done():
				}
			}()
			code := run(t.Context(), []string{"login", "--issuer", issuer.URL, "--client-id", issuer.Audience, "--admin", r.bound["admin"]}, nil, io.Discard, &confirmed)
			if code != 1 || !strings.Contains(confirmed.text.String(), test.want) {
				t.Errorf("login ends with %d: %s", code, confirmed.text.String())
			}
			if code, out, _ := runCommand(t, "logout", "--admin", r.bound["admin"]); code != 0 || !strings.Contains(out, "there was no login") {
				t.Errorf("something was kept: %s", out)
			}
		})
	}
}
