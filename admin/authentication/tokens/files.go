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
}

// Files are token files, and what they held when they were last good. They are safe for
// concurrent use.
type Files struct {
	paths []string
	log   *slog.Logger
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
	f := &Files{paths: paths, log: log}
	entries, err := readAll(paths)
	if err != nil {
		return nil, err
	}
	f.entries.Store(&entries)
	return f, nil
}

// Find returns the name of a token. It takes the same time for every token of one length:
// all lines are compared, and each of them in constant time.
func (f *Files) Find(token string) (name string, found bool) {
	digest := sha256.Sum256([]byte(token))
	entries := *f.entries.Load()
	at := -1
	for i := range entries {
		equal := subtle.ConstantTimeCompare(digest[:], entries[i].digest[:])
		at = subtle.ConstantTimeSelect(equal, i, at)
	}
	if at < 0 {
		return "", false
	}
	return entries[at].name, true
}

// Names returns the names of all tokens, sorted, each once.
func (f *Files) Names() []string {
	names := []string{}
	for _, e := range *f.entries.Load() {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Follow reads the files again and again until ctx is done. While they are bad, what they
// held before stays.
func (f *Files) Follow(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	logged := ""
	for {
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
	entries, err := readAll(f.paths)
	if err != nil {
		if err.Error() != logged {
			f.log.Error("the token files cannot be used; what they held before stays", "error", err)
			f.failures.Add(1)
		}
		return err.Error()
	}
	if !slices.Equal(entries, *f.entries.Load()) {
		f.entries.Store(&entries)
		f.log.Info("new token files are used", "tokens", len(entries))
	}
	return ""
}

// readAll reads the entries of all files. A digest with two names is an error, for which
// of them the token belongs to would be chance.
func readAll(paths []string) ([]entry, error) {
	var all []entry
	names := map[[sha256.Size]byte]string{}
	for _, path := range paths {
		content, err := readBounded(path)
		if err != nil {
			return nil, fmt.Errorf("%w; name a file that this process may read", err)
		}
		entries, err := parse(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, e := range entries {
			if other, found := names[e.digest]; found && other != e.name {
				return nil, fmt.Errorf("%s: a token of the name %s has the name %s too", path, e.name, other)
			}
			names[e.digest] = e.name
		}
		all = append(all, entries...)
	}
	return all, nil
}

// readBounded returns a file's content.
func readBounded(path string) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
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
	if len(words) != 2 {
		return e, errors.New("it is NAME and the SHA-256 of a token; `understudy token NAME` makes one")
	}
	if !namePattern.Match(words[0]) {
		return e, errors.New("the name is not one: " + nameRule)
	}
	digest := make([]byte, hex.DecodedLen(len(words[1])))
	if n, err := hex.Decode(digest, words[1]); err != nil || n != sha256.Size {
		return e, errors.New("after the name comes the SHA-256 of a token, 64 hexadecimal digits; `understudy token NAME` makes one")
	}
	return entry{name: string(words[0]), digest: [sha256.Size]byte(digest)}, nil
}
