package revocation

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/admin/access"
	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
)

// written is a file with lines.
func written(t *testing.T, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "revoked")
	write(t, path, lines...)
	return path
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, log *slog.Logger) *List {
	t.Helper()
	l, err := Open(path, log)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// of is a principal by its member, with groups of https://idp.
func of(member string, groups ...string) access.Principal {
	p := access.Principal{Member: member}
	for _, g := range groups {
		p.Groups = append(p.Groups, access.Group{Issuer: "https://idp", Name: g}.String())
	}
	return p
}

func TestWhoIsRevoked(t *testing.T) {
	t.Parallel()
	l := open(t, written(t, "# left in May", "", " oidc:https://idp#00u1 \r", "token:ci", "cert:Ann Smith", "group:https://idp#contractors", "chef:bob"), slog.New(slog.DiscardHandler))
	for name, c := range map[string]struct {
		who  access.Principal
		want bool
	}{
		"a person":             {of("oidc:https://idp#00u1"), true},
		"another one":          {of("oidc:https://idp#00u2"), false},
		"of another issuer":    {of("oidc:https://other#00u1"), false},
		"a token":              {of("token:ci"), true},
		"another form of it":   {of("chef:ci"), false},
		"who signs":            {of("chef:bob"), true},
		"a name with a blank":  {of("cert:Ann Smith"), true},
		"by a group":           {of("oidc:https://idp#00u3", "ops", "contractors"), true},
		"of other groups":      {of("oidc:https://idp#00u3", "ops", "Contractors"), false},
		"nobody in particular": {access.Principal{}, false},
	} {
		if got := l.Revoked(c.who); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if all := open(t, written(t, access.AllAuthenticated), slog.New(slog.DiscardHandler)); !all.Revoked(of("token:root")) || all.Revoked(access.Principal{}) {
		t.Error("everybody with credentials is not who is revoked")
	}
	if nobody := (*List)(nil); nobody.Revoked(of("token:ci")) || nobody.Problem() != "" {
		t.Error("no list refuses somebody")
	}
}

// TestBadFiles are named with their line at the start, and never quoted.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"no member": "hunter2", "a group of nobody": "group:hunter2", "a control character": "token:hunter2\x07", "two members": "spiffe:hunter2 token:x"} {
		path := written(t, "token:ok", line)
		if _, err := Open(path, nil); err == nil || !strings.Contains(err.Error(), path+": line 2: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Open(written(t, strings.Repeat("#", maxFile+1)), nil); err == nil {
		t.Error("a file without an end is read")
	}
}

// TestTheFileIsReadAgain: who is added is refused at once, who is taken off comes back when the
// file has stayed so, and whatever goes wrong lets nobody in.
func TestTheFileIsReadAgain(t *testing.T) {
	t.Parallel()
	path := written(t, "token:a")
	var log bytes.Buffer
	l := open(t, path, slog.New(slog.NewTextHandler(&log, nil)))
	read := func(when string, want ...string) {
		t.Helper()
		l.refresh()
		var got []string
		for _, name := range []string{"a", "b", "c", "d"} {
			if l.Revoked(of("token:" + name)) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: revoked are %q, want %q", when, got, want)
		}
	}
	read("nothing has changed", "a")
	if log.Len() > 0 {
		t.Errorf("nothing changed, but the log says %s", &log)
	}
	write(t, path, "token:a", "token:b")
	read("one is added", "a", "b")
	write(t, path, "token:b")
	read("one is taken off", "a", "b")
	read("and stays off", "b")
	write(t, path, "")
	read("a file that is being written", "b")
	write(t, path, "token:b", "token:c")
	read("and is written", "b", "c")
	write(t, path, "garbage hunter2", "token:d")
	read("a bad line", "b", "c", "d")
	read("a bad line still", "b", "c", "d")
	if l.Failures() != 1 || !strings.Contains(l.Problem(), path+": line 1: ") || strings.Count(log.String(), "level=ERROR") != 1 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("a bad line: %d failures, %q, log:\n%s", l.Failures(), l.Problem(), &log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	read("no file", "b", "c", "d")
	read("no file still", "b", "c", "d")
	if l.Failures() != 2 || !strings.Contains(l.Problem(), "no such file") {
		t.Errorf("no file: %d failures, %q", l.Failures(), l.Problem())
	}
	write(t, path, "token:a")
	read("it is back", "a", "b", "c", "d")
	read("and stays so", "a")
	if l.Problem() != "" {
		t.Errorf("a good file: %q", l.Problem())
	}
}

// TestRefusalsAreLogged by name, in bounds.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := open(t, written(t, "token:a"), slog.New(slog.NewTextHandler(&log, nil)))
	for range 50 {
		l.Refuses(t.Context(), of("token:a"))
		l.Refuses(t.Context(), of("token:b"))
	}
	if n := strings.Count(log.String(), "principal=token:a"); n == 0 || n > maxLines || strings.Contains(log.String(), "token:b") {
		t.Errorf("50 refusals have %d lines:\n%s", n, &log)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	path := written(t, "")
	l := open(t, path, slog.New(slog.NewTextHandler(&logtest.Buffer{}, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.Follow(ctx, time.Millisecond); close(done) }()
	write(t, path, "token:a")
	testkit.Await(t, "the new file is read", func() bool { return l.Revoked(of("token:a")) })
	cancel()
	testkit.Closed(t, "the reader to end", done)
}

// FuzzFile: whatever a file holds, a line that names a member is one, and nothing else is.
func FuzzFile(f *testing.F) {
	f.Add([]byte("# a\n\ntoken:ci\r\nbad\n group:https://idp#a b \n\xff"))
	f.Fuzz(func(t *testing.T, content []byte) {
		found, err := parse(content)
		if found == nil {
			t.Fatalf("no members at all, %v", err)
		}
		for m := range found {
			if access.CheckMember(m) != nil {
				t.Errorf("%q is a member", m)
			}
		}
		for line := range strings.SplitSeq(string(content), "\n") {
			member := strings.TrimSpace(line)
			if member != "" && member[0] != '#' && access.CheckMember(member) == nil && !found[member] {
				t.Errorf("%q is passed over", member)
			}
		}
	})
}
