package tokens

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/authz/diagnostics/logtest"
)

// written is a token file with lines.
func written(t *testing.T, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tokens")
	write(t, path, lines...)
	return path
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// made is a token and its line.
func made(t *testing.T, name string) (token, line string) {
	t.Helper()
	token, line, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	return token, line
}

func open(t *testing.T, paths ...string) *Files {
	t.Helper()
	f, err := Open(paths, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTokensAreFound(t *testing.T) {
	t.Parallel()
	ci, ciLine := made(t, "ci")
	next, nextLine := made(t, "ci")
	ann, annLine := made(t, "ann@example.com")
	stranger, _ := made(t, "ci")
	f := open(t, written(t, "# deploys", ciLine, "", "  "+nextLine+"\t\r"), written(t, annLine))
	for token, want := range map[string]string{ci: "ci", next: "ci", ann: "ann@example.com", stranger: "", "": "", ciLine: "", strings.Fields(ciLine)[1]: ""} {
		if got, found := f.Find(token); got != want || found != (want != "") {
			t.Errorf("got %q, %v, want %q", got, found, want)
		}
	}
	if got, want := f.Names(), []string{"ann@example.com", "ci"}; !slices.Equal(got, want) {
		t.Errorf("got the names %q, want %q", got, want)
	}
	if !strings.HasPrefix(ci, Prefix) || ci == next || len(ci) != len(Prefix)+43 {
		t.Errorf("tokens like %s have to be random, with 256 bits", ci)
	}
}

func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"ci": true, "a.b_c-d@e": true, "": false, "#a": false, "a b": false, "a\nb": false, "ä": false, strings.Repeat("a", 129): false, "-a": false} {
		if _, _, err := New(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestBadLines are named by file and number, and never quoted.
func TestBadLines(t *testing.T) {
	t.Parallel()
	_, good := made(t, "ci")
	for name, line := range map[string]string{
		"a token itself":    "ci ustk_hunter2hunter2hunter2hunter2hunter2hunter2",
		"no name":           strings.Fields(good)[1],
		"three words":       good + " hunter2",
		"a short digest":    "ci hunter2",
		"too long a digest": good + "00",
		"no name of ours":   "ci/hunter2 " + strings.Fields(good)[1],
		"a comment behind":  good + " # hunter2",
	} {
		path := written(t, "# tokens", good, line)
		_, err := Open([]string{path}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), path+": line 3: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Open([]string{filepath.Join(t.TempDir(), "none")}, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a file that is not there: %v", err)
	}
	same := written(t, good, "other"+good[len("ci"):])
	if _, err := Open([]string{same}, nil); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("one token of two names: %v", err)
	}
	large := written(t, strings.Repeat("#", maxFile+1))
	if _, err := Open([]string{large}, nil); err == nil {
		t.Error("a file without an end is read")
	}
}

// TestFilesAreReadAgain: a new line counts soon, one that is gone does not any more, and a
// bad file changes nothing, is logged once and counted once.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	old, oldLine := made(t, "old")
	next, nextLine := made(t, "next")
	path := written(t, oldLine)
	var log bytes.Buffer
	f, err := Open([]string{path}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	logged := f.refresh("")
	if log.Len() > 0 {
		t.Errorf("nothing changed, but the log says %s", &log)
	}
	write(t, path, oldLine, "garbage hunter2")
	for range 3 {
		logged = f.refresh(logged)
	}
	if _, found := f.Find(old); !found || f.Failures() != 1 || strings.Count(log.String(), "level=ERROR") != 1 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("a bad file: the old token is found %v, %d failures, log:\n%s", found, f.Failures(), &log)
	}
	write(t, path, nextLine)
	logged = f.refresh(logged)
	_, foundOld := f.Find(old)
	if name, found := f.Find(next); name != "next" || !found || foundOld || logged != "" {
		t.Errorf("a good file: %q %v, the old token is found %v, failing %q", name, found, foundOld, logged)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.refresh(logged)
	if _, found := f.Find(next); !found || f.Failures() != 2 {
		t.Errorf("no file: found %v, %d failures", found, f.Failures())
	}
}

// TestAFileThatIsGone: its tokens stay for a moment in which it may be replaced, and end if it
// stays away. Other files are read meanwhile.
func TestAFileThatIsGone(t *testing.T) {
	t.Parallel()
	old, oldLine := made(t, "old")
	other, otherLine := made(t, "other")
	path, beside := written(t, oldLine), written(t, "")
	var log bytes.Buffer
	f, err := Open([]string{path, beside}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	f.now = func() time.Time { return now }
	expect := func(when string, wantOld, wantOther bool, warnings int) {
		t.Helper()
		logged := f.refresh(f.refresh(""))
		_, foundOld := f.Find(old)
		_, foundOther := f.Find(other)
		if got := strings.Count(log.String(), "level=WARN"); foundOld != wantOld || foundOther != wantOther || got != warnings || logged != "" {
			t.Errorf("%s: the tokens are found %v and %v, with %d warnings, want %v, %v, %d; failing %q, log:\n%s", when, foundOld, foundOther, got, wantOld, wantOther, warnings, logged, &log)
		}
	}
	// A dangling link is what a secret's volume has for a moment.
	target := path + ".d"
	if err := os.Rename(path, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target+".next", path); err != nil {
		t.Fatal(err)
	}
	expect("gone", true, false, 1)
	write(t, beside, otherLine)
	now = now.Add(goneGrace - time.Second)
	expect("for less than a minute", true, true, 1)
	if err := os.Rename(target, target+".next"); err != nil {
		t.Fatal(err)
	}
	expect("back", true, true, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("gone again", true, true, 2)
	now = now.Add(goneGrace)
	expect("for a minute", false, true, 3)
	write(t, path, oldLine)
	expect("back again", true, true, 3)
	if f.Failures() != 2 {
		t.Errorf("got %d failures, want 2", f.Failures())
	}
}

// TestABadFileKeepsNoOther: what is gone ends although another file is bad.
func TestABadFileKeepsNoOther(t *testing.T) {
	t.Parallel()
	old, oldLine := made(t, "old")
	good, goodLine := made(t, "good")
	path, beside := written(t, oldLine), written(t, goodLine)
	f := open(t, path, beside)
	now := time.Now()
	f.now = func() time.Time { return now }
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, beside, "garbage")
	f.refresh("")
	now = now.Add(goneGrace)
	f.refresh("")
	_, foundOld := f.Find(old)
	if name, found := f.Find(good); foundOld || name != "good" || !found {
		t.Errorf("the token of the file that is gone is found %v, that of the bad file %v", foundOld, found)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	_, oldLine := made(t, "old")
	next, nextLine := made(t, "next")
	path := written(t, oldLine)
	log := &logtest.Buffer{}
	f, err := Open([]string{path}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.Follow(ctx, time.Millisecond); close(done) }()
	write(t, path, nextLine)
	for found := false; !found; _, found = f.Find(next) {
		if t.Context().Err() != nil {
			t.Fatal("the new file is not read")
		}
	}
	cancel()
	<-done
}

func FuzzTokenFile(f *testing.F) {
	digest := sha256.Sum256([]byte("hunter2hunter2"))
	f.Add([]byte("ci " + hex.EncodeToString(digest[:]) + "\n"))
	f.Add([]byte("# a\n\nb c d\n\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, err := parse(content)
		if err != nil && entries != nil {
			t.Error("a bad file has entries")
		}
		for _, e := range entries {
			if !namePattern.MatchString(e.name) {
				t.Errorf("the name %q", e.name)
			}
		}
	})
}
