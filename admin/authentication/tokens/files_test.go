package tokens

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
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
	token, line, err := New(name, time.Time{})
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

// find is Find of a token that may be unknown.
func find(f *Files, token string) (name string, found bool) {
	b, err := f.Find(token)
	return b.Name, err == nil
}

func TestTokensAreFound(t *testing.T) {
	t.Parallel()
	ci, ciLine := made(t, "ci")
	next, nextLine := made(t, "ci")
	ann, annLine := made(t, "ann@example.com")
	stranger, _ := made(t, "ci")
	f := open(t, written(t, "# deploys", ciLine, "", "  "+nextLine+"\t\r"), written(t, annLine))
	for token, want := range map[string]string{ci: "ci", next: "ci", ann: "ann@example.com", stranger: "", "": "", ciLine: "", strings.Fields(ciLine)[1]: ""} {
		if got, found := find(f, token); got != want || found != (want != "") {
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
		if _, _, err := New(name, time.Time{}); (err == nil) != want {
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
		"no time":           good + " hunter2",
		"a day alone":       good + " 2030-01-31",
		"four words":        good + " 2030-01-31T00:00:00Z hunter2",
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
	ends := written(t, good, good+" 2030-01-31T00:00:00Z")
	if _, err := Open([]string{ends}, nil); err == nil || !strings.Contains(err.Error(), "other times") {
		t.Errorf("one token of two ends: %v", err)
	}
	large := written(t, strings.Repeat("#", maxFile+1))
	if _, err := Open([]string{large}, nil); err == nil {
		t.Error("a file without an end is read")
	}
}

// TestFilesOfOthers: a file that others can read or write is refused with its mode and the mend,
// and changes nothing when it becomes one.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	for mode, want := range map[os.FileMode]bool{
		0o600: true, 0o400: true, 0o640: true, 0o440: true, 0o700: true,
		0o644: false, 0o604: false, 0o602: false, 0o660: false, 0o666: false, 0o601: false,
	} {
		_, line := made(t, "ci")
		path := written(t, line)
		chmod(t, path, mode)
		_, err := Open([]string{path}, slog.New(slog.DiscardHandler))
		if (err == nil) != want {
			t.Errorf("the mode %#o: %v", mode, err)
		}
		for _, part := range []string{path, fmt.Sprintf("%#o", mode), "chmod 0600", "0640"} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("the mode %#o: %v, which does not say %s", mode, err, part)
			}
		}
	}
	old, line := made(t, "old")
	_, evil := made(t, "root")
	path := written(t, line)
	var log bytes.Buffer
	f, err := Open([]string{path}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, line, evil)
	chmod(t, path, 0o666)
	f.refresh(f.refresh(""))
	if _, err := f.Find(old); err != nil || len(f.Names()) != 1 || strings.Count(log.String(), "0666") != 1 {
		t.Errorf("a file that others can write: the names are %q, log:\n%s", f.Names(), &log)
	}
}

// TestHide: a file has no mode that is refused afterwards, and keeps what may be kept.
func TestHide(t *testing.T) {
	t.Parallel()
	for before, want := range map[os.FileMode][2]os.FileMode{0o644: {0o640, 0o600}, 0o666: {0o640, 0o600}, 0o600: {0o600, 0o600}, 0o777: {0o750, 0o700}} {
		for i, alone := range []bool{false, true} {
			path := written(t, "")
			chmod(t, path, before)
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			err = Hide(file, alone)
			info, _ := file.Stat()
			if err != nil || info.Mode() != want[i] || CheckMode(file) != nil {
				t.Errorf("%#o is %#o, %v, want %#o", before, info.Mode(), err, want[i])
			}
			_ = file.Close()
		}
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Hide(writer, true); err != nil || CheckMode(reader) != nil {
		t.Errorf("a pipe: %v, %v", err, CheckMode(reader))
	}
	_, _ = reader.Close(), writer.Close()
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
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
	if _, found := find(f, old); !found || f.Failures() != 1 || strings.Count(log.String(), "level=ERROR") != 1 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("a bad file: the old token is found %v, %d failures, log:\n%s", found, f.Failures(), &log)
	}
	write(t, path, nextLine)
	logged = f.refresh(logged)
	_, foundOld := find(f, old)
	if name, found := find(f, next); name != "next" || !found || foundOld || logged != "" {
		t.Errorf("a good file: %q %v, the old token is found %v, failing %q", name, found, foundOld, logged)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.refresh(logged)
	if _, found := find(f, next); !found || f.Failures() != 2 {
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
		_, foundOld := find(f, old)
		_, foundOther := find(f, other)
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
	_, foundOld := find(f, old)
	if name, found := find(f, good); foundOld || name != "good" || !found {
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
	testkit.Await(t, "the new file is read", func() bool { _, found := find(f, next); return found })
	cancel()
	testkit.Closed(t, "the reader to end", done)
}

func FuzzTokenFile(f *testing.F) {
	digest := sha256.Sum256([]byte("hunter2hunter2"))
	f.Add([]byte("ci " + hex.EncodeToString(digest[:]) + "\n"))
	f.Add([]byte("ci " + hex.EncodeToString(digest[:]) + " 2030-01-31T02:00:00.5+02:00\n"))
	f.Add([]byte("ci " + hex.EncodeToString(digest[:]) + " 0000-01-01T00:00:00+01:00\n"))
	f.Add([]byte("ci " + hex.EncodeToString(digest[:]) + " 9999-12-31T23:00:00-01:00\n"))
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
			line := e.name + " " + hex.EncodeToString(e.digest[:])
			if !e.expires.IsZero() {
				line += " " + e.expires.Format(time.RFC3339Nano)
			}
			if again, err := parseLine([]byte(line)); err != nil || again != e {
				t.Errorf("%s is %+v, %v", line, again, err)
			}
		}
	})
}
