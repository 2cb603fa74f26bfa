package signature

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// maxKeyFile is the size of the largest file of a key, in bytes.
const maxKeyFile = 64 << 10

// Keyring has the key of each user, from a file that is read again when it has changed. A
// file that is gone, or cannot be read any more, is no key: removing it ends what its owner
// may do. It is safe for concurrent use.
type Keyring struct {
	files map[string]*keyFile
	// decoy is the file that is asked for a name that has none.
	decoy *keyFile
	log   *slog.Logger
}

// keyFile is a file and the key that was in it.
type keyFile struct {
	user, path string

	mu sync.Mutex
	// size and changed show whether the file is still what was read.
	size    int64
	changed time.Time
	key     *Key
}

// OpenKeyring reads files :: name of a user → path. The error names every file that has no key. A
// nil logger means none.
func OpenKeyring(files map[string]string, log *slog.Logger) (*Keyring, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &Keyring{files: make(map[string]*keyFile), log: log}
	var errs []error
	for _, user := range slices.Sorted(maps.Keys(files)) {
		f := &keyFile{user: user, path: files[user]}
		if !ValidUser(user) {
			errs = append(errs, fmt.Errorf("%q: a name has up to 255 letters, digits and characters of _.:@-", user))
		} else if err := f.read(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", user, err))
		}
		r.files[user], r.decoy = f, f
	}
	return r, errors.Join(errs...)
}

// Has reports whether there is a key for a name.
func (r *Keyring) Has(user string) bool { return r.files[user] != nil }

// Signed reports whether the user whom a claim names made it about a request. A name without a
// key takes as long as one with a key, so that strangers cannot find out names.
func (r *Keyring) Signed(c *Claim, about Request) bool {
	file, known := r.files[c.User]
	if !known {
		file = r.decoy
	}
	if file == nil {
		return false
	}
	key := file.current(r.log)
	return key != nil && key.Signed(c, about) && known
}

// current is the key as the file has it now, or nil.
func (f *keyFile) current(log *slog.Logger) *Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && info.Size() == f.size && info.ModTime().Equal(f.changed) {
		return f.key
	}
	if err == nil {
		err = f.read()
	}
	if err != nil && (f.key != nil || f.size >= 0) {
		log.Warn("the key of a user of Chef's API cannot be read; nobody can sign by it", "user", f.user, "error", err)
		f.key, f.size = nil, -1
	}
	return f.key
}

// read reads the file. After an error there is no key.
func (f *keyFile) read() error {
	f.key = nil
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("opening its key: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading its key: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return fmt.Errorf("reading its key: %w", err)
	}
	f.size, f.changed = info.Size(), info.ModTime()
	if f.key, err = ParseKey(text); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}
