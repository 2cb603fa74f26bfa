package credentials_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/cmd/understudy/credentials"
)

const (
	local  = "127.0.0.1:8181"
	secret = "ustk_secret"
)

// alone gives a test a folder for configuration, and no variables.
func alone(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("UNDERSTUDY_TOKEN", "")
	t.Setenv("UNDERSTUDY_TOKEN_FILE", "")
}

// write makes a file and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The flag wins over the variables, these over a login, and a token over a file with one.
func TestWhichTokenIsTaken(t *testing.T) {
	alone(t)
	source := credentials.Source{}
	expect := func(want, from string) {
		t.Helper()
		token, err := source.Read(local)
		if err != nil {
			t.Fatal(err)
		}
		got, err := token.Bearer(t.Context())
		if err != nil || got != want || !strings.HasPrefix(token.From, from) || token.Found() != (want != "") {
			t.Errorf("got %q of %q, %v; want %q of %q", got, token.From, err, want, from)
		}
	}
	expect("", "")
	if err := (&credentials.Login{Server: local, Token: "of-login"}).Save(); err != nil {
		t.Fatal(err)
	}
	expect("of-login", "`understudy login`")
	t.Setenv("UNDERSTUDY_TOKEN_FILE", write(t, "a", "of-named-file\n"))
	expect("of-named-file", "UNDERSTUDY_TOKEN_FILE ")
	t.Setenv("UNDERSTUDY_TOKEN", " of-variable\n")
	expect("of-variable", "UNDERSTUDY_TOKEN")
	source.File = write(t, "b", "of-flag\n")
	expect("of-flag", "--token-file ")
}

// A token that others can read is sent, with a warning: platforms mount such files.
func TestFilesOfOthersAreWarnedOf(t *testing.T) {
	alone(t)
	file := write(t, "ci.token", secret)
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o666: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		token, err := credentials.Source{File: file}.Read(local)
		if err != nil || token.Value != secret || (token.Warning != "") != want {
			t.Errorf("the mode %#o: the warning is %q, %v", mode, token.Warning, err)
		}
		for _, part := range []string{"--token-file", file, "chmod 0600"} {
			if want && !strings.Contains(token.Warning, part) {
				t.Errorf("the mode %#o: the warning is %q without %s", mode, token.Warning, part)
			}
		}
	}
}

// A token goes over TLS or stays on this machine, wherever it is from.
func TestTokensCrossNoNetworkReadably(t *testing.T) {
	alone(t)
	t.Setenv("UNDERSTUDY_TOKEN", secret)
	for addr, want := range map[string]bool{
		"127.0.0.1:8181": true, "localhost:8181": true, "[::1]:8181": true, "http://127.0.0.1:8181/": true, "http://localhost:8181": true,
		"https://understudy.example.com:8181": true, "unix:///run/understudy.sock": true, "127.8.7.6:1": true,
		"understudy:8181": false, "http://understudy.example.com:8181": false, "10.0.0.1:8181": false, "0.0.0.0:8181": false,
		"localhost.example.com:8181": false, "127.0.0.1.example.com:80": false, "HTTPS.example.com:80": false, "": false,
		"dns:///127.0.0.1:8181": false, "http://user@127.0.0.1:8181": false, "127.0.0.1@evil.example:80": false,
	} {
		_, err := credentials.Source{}.Read(addr)
		if (err == nil) != want {
			t.Errorf("%q: error %v, want it sent: %v", addr, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "https://")) {
			t.Errorf("%q: the error %q has the token, or no fix", addr, err)
		}
		if _, err := (credentials.Source{Insecure: true}).Read(addr); err != nil {
			t.Errorf("%q with --insecure-token: %v", addr, err)
		}
	}
}

// Errors name the place and quote nothing: another secret may be named by mistake.
func TestBadTokensAreNotQuoted(t *testing.T) {
	alone(t)
	for name, prepare := range map[string]func(*credentials.Source){
		"two words in a file": func(s *credentials.Source) { s.File = write(t, "a", secret+" more") },
		"an empty file":       func(s *credentials.Source) { s.File = write(t, "a", "\n") },
		"no file":             func(s *credentials.Source) { s.File = "/does/not/exist" },
		"a large file":        func(s *credentials.Source) { s.File = write(t, "a", strings.Repeat(secret, 9000)) },
		"two words":           func(*credentials.Source) { t.Setenv("UNDERSTUDY_TOKEN", secret+"\n"+secret) },
	} {
		s := credentials.Source{}
		prepare(&s)
		token, err := s.Read(local)
		if err == nil || token.Found() || strings.Contains(err.Error(), secret) ||
			!strings.Contains(err.Error(), "--token-file") && !strings.Contains(err.Error(), "UNDERSTUDY_TOKEN") {
			t.Errorf("%s: token %v, error %v", name, token.Found(), err)
		}
	}
}
