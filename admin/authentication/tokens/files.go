package tokens

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// maxFile bounds a token file, in bytes: more than 10,000 lines.
	maxFile = 1 << 20
	// nameRule is what namePattern says.
	nameRule = "it begins with a letter or digit, and has up to 128 letters, digits and characters of . _ @ -"
)

// namePattern is what a name of a token is.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$`)

// entry is one line.
type entry struct {
	name   string
	digest [sha256.Size]byte
	// expires is when the token ends, in UTC; zero if it does not.
	expires time.Time
}

// expired reports whether the token has ended.
func (e entry) expired(now time.Time) bool { return !e.expires.IsZero() && !now.Before(e.expires) }

// goneGrace is for how long a file may be gone until its tokens end. What replaces files, such
// as a secret that is mounted, may leave a moment without one; who deletes a file wants its
// tokens to end, as those of an empty file do.
const goneGrace = time.Minute

// file is a token file, and what it held when it was last good.
type file struct {
	path    string
	entries []entry
	// gone is since when there is no such file; zero if there is one.
	gone time.Time
}

// Files are token files, and what they held when they were last good. They are safe for
// concurrent use.
type Files struct {
	log *slog.Logger
	// now is the clock.
	now func() time.Time
	// files are read by Follow alone.
	files []file
	// entries are those of all files.
	entries atomic.Pointer[[]entry]
	// failures counts each time that the files became bad.
	failures atomic.Int64
}

// Failures returns how often the files became bad.
func (f *Files) Failures() int64 { return f.failures.Load() }

// Open reads files for the first time. An error names the file and the line, and quotes
// nothing of it: a file of secrets may have been named by mistake.
func Open(paths []string, log *slog.Logger) (*Files, error) {
	f := &Files{log: log, now: time.Now}
	for _, path := range paths {
		entries, err := read(path)
		if err != nil {
			return nil, err
		}
		f.files = append(f.files, file{path: path, entries: entries})
	}
	all, err := merge(f.files)
	if err != nil {
		return nil, err
	}
	f.entries.Store(&all)
	return f, nil
}

// Bearer is who has a token.
type Bearer struct {
	// Name is that of the token.
	Name string
	// Expires is when the token ends. Zero means that it does not.
	Expires time.Time
}

// Why a token is nobody's.
var (
	ErrUnknown = errors.New("no token file has the token")
	ErrExpired = errors.New("the token has expired")
)

// Find returns who has a token, or ErrUnknown or ErrExpired. It takes the same time for every
// token of one length: all lines are compared, and each of them in constant time.
func (f *Files) Find(token string) (Bearer, error) {
	digest := sha256.Sum256([]byte(token))
	entries := *f.entries.Load()
	at := -1
	for i := range entries {
		equal := subtle.ConstantTimeCompare(digest[:], entries[i].digest[:])
		at = subtle.ConstantTimeSelect(equal, i, at)
	}
	if at < 0 {
		return Bearer{}, ErrUnknown
	}
	if entries[at].expired(f.now()) {
		return Bearer{}, ErrExpired
	}
	return Bearer{Name: entries[at].name, Expires: entries[at].expires}, nil
}

// Names returns the names of all tokens that have not expired, sorted, each once.
func (f *Files) Names() []string {
	names, now := []string{}, f.now()
	for _, e := range *f.entries.Load() {
		if !e.expired(now) {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Follow reads the files again and again until ctx is done. While one is bad, what it held
// before stays. What one held that is gone stays for a minute.
func (f *Files) Follow(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	logged, ends := "", &ends{}
	for {
		ends.warn(f.log, *f.entries.Load(), f.now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			logged = f.refresh(logged)
		}
	}
}

// refresh reads the files once. It returns the error that was logged last, so that one
// failure is logged and counted once.
func (f *Files) refresh(logged string) string {
	now := f.now()
	next, failed := make([]file, len(f.files)), []error(nil)
	for i, before := range f.files {
		var err error
		if next[i], err = f.reread(before, now); err != nil {
			failed = append(failed, err)
		}
	}
	all, err := merge(next)
	if err != nil {
		// Nothing changes but for what is gone.
		failed = append(failed, err)
		for i, before := range f.files {
			if next[i].gone.IsZero() {
				next[i].entries = before.entries
			}
		}
		all, _ = merge(next)
	}
	f.files = next
	f.use(all)
	err = errors.Join(failed...)
	if err == nil {
		return ""
	}
	if err.Error() != logged {
		f.log.Error("a token file cannot be used; what it held before stays", "error", err)
		f.failures.Add(1)
	}
	return err.Error()
}

// reread reads a file again. With an error it is as it was before. One that is gone is no error:
// that is logged when it begins, and when its tokens end.
func (f *Files) reread(before file, now time.Time) (file, error) {
	entries, err := read(before.path)
	if err == nil {
		return file{path: before.path, entries: entries}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		before.gone = time.Time{}
		return before, err
	}
	if before.gone.IsZero() {
		before.gone = now
		f.failures.Add(1)
		f.log.Warn("a token file is gone: its tokens end if it stays away", "file", before.path, "in", goneGrace, "tokens", len(before.entries))
	}
	if now.Sub(before.gone) >= goneGrace && len(before.entries) > 0 {
		f.log.Warn("a token file stays away: its tokens have ended", "file", before.path, "tokens", len(before.entries))
		before.entries = nil
	}
	return before, nil
}

// use makes entries those that are found.
func (f *Files) use(entries []entry) {
	if slices.Equal(entries, *f.entries.Load()) {
		return
	}
	f.entries.Store(&entries)
	f.log.Info("new token files are used", "tokens", len(entries))
}

// merge returns the entries of all files. A digest with two names, or two ends, is an error, for
// which of them the token has would be chance.
func merge(files []file) ([]entry, error) {
	var all []entry
	known := map[[sha256.Size]byte]entry{}
	for _, f := range files {
		for _, e := range f.entries {
			switch other, found := known[e.digest]; {
			case found && other.name != e.name:
				return nil, fmt.Errorf("%s: a token of the name %s has the name %s too", f.path, e.name, other.name)
			case found && other.expires != e.expires:
				return nil, fmt.Errorf("%s: a token of the name %s is there twice, with other times at which it expires", f.path, e.name)
			}
			known[e.digest] = e
		}
		all = append(all, f.entries...)
	}
	return all, nil
}

// read returns the entries of a file.
func read(path string) ([]entry, error) {
	content, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	entries, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

// readBounded returns a file's content.
func readBounded(path string) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name a file that this process may read", err)
	}
	defer func() { _ = file.Close() }()
	if err := CheckMode(file); err != nil {
		return nil, err
	}
	content, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s: it has more than %d bytes", path, maxFile)
	}
	return content, err
}

// parse reads the lines of a file. Its errors name the line.
func parse(content []byte) ([]entry, error) {
	var entries []entry
	number := 0
	for line := range bytes.Lines(content) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		e, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// parseLine reads one line without the space around it.
func parseLine(line []byte) (e entry, err error) {
	words := bytes.Fields(line)
	if len(words) != 2 && len(words) != 3 {
		return e, errors.New("it is NAME, the SHA-256 of a token and, if it expires, the time; `understudy token NAME` makes one")
	}
	if !namePattern.Match(words[0]) {
		return e, errors.New("the name is not one: " + nameRule)
	}
	digest := make([]byte, hex.DecodedLen(len(words[1])))
	if n, err := hex.Decode(digest, words[1]); err != nil || n != sha256.Size {
		return e, errors.New("after the name comes the SHA-256 of a token, 64 hexadecimal digits; `understudy token NAME` makes one")
	}
	e = entry{name: string(words[0]), digest: [sha256.Size]byte(digest)}
	if len(words) == 3 {
		expires, err := time.Parse(time.RFC3339, string(words[2]))
		if year := expires.UTC().Year(); err != nil || expires.IsZero() || year < 1 || year > 9999 { // so that it can be written again
			return entry{}, errors.New("after the SHA-256 comes the time at which the token expires, as RFC 3339 has it, such as 2030-01-31T00:00:00Z")
		}
		e.expires = expires.UTC()
	}
	return e, nil
}
