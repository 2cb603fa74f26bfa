package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// lockTimeout is how long Open waits for another process to let go of the file.
	lockTimeout = time.Second
	// lockPause is the time between two attempts.
	lockPause = 20 * time.Millisecond
)

var (
	// ErrHeld says that another process holds the file.
	ErrHeld = errors.New("another process holds the file")
	// ErrDamaged says that the file, or what is left of it, is not what was written.
	ErrDamaged = errors.New("the file is damaged")
)

// fix says how to go on without the file.
const fix = "put a copy of it in its place; or move it away and run `understudy restore` with the same --store, " +
	"which stores again what a sidecar saved last; without either, a new store begins empty"

// openFile opens the database in a file that is verified first, and makes a new one if
// there is none.
func openFile(path string) (db *bbolt.DB, err error) {
	if err := create(path); err != nil {
		return nil, fmt.Errorf("making %s: %w", path, err)
	}
	options := &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, OpenFile: openVerified}
	err = guarded(func() error {
		if db, err = bbolt.Open(path, 0o600, options); err != nil {
			return err
		}
		return db.View(checkLayout)
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("opening %s: %w: stop it, give this one another file, or let both share a Redis", path, ErrHeld)
	case errors.Is(err, ErrDamaged):
		err = fmt.Errorf("%w: %s", err, fix)
	}
	if db != nil {
		err = errors.Join(err, db.Close())
	}
	return nil, fmt.Errorf("opening %s: %w", path, err)
}

// openVerified opens a file for bbolt, which locks it again; that changes nothing. It is
// verified under the lock, for another process may be writing to it.
func openVerified(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	err = lock(f)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil {
			err = verify(f, info.Size())
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock waits until no other process holds the file.
func lock(f *os.File) error {
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockPause) {
		held, err := tryLock(f)
		if err != nil || !held {
			return err
		}
		if time.Now().After(deadline) {
			return bolterrors.ErrTimeout
		}
	}
}

// create makes the file with its folder, if there is none. It is there with all that
// belongs in it or not at all, so that a file which is empty was never a store.
func create(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		// Whatever else is wrong with the file is the error of opening it.
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	name := temporary.Name()
	defer func() { _ = os.Remove(name) }()
	if err := temporary.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(name, 0o600, nil)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return place(name, path)
}

// place gives a new file its name, unless another process was faster.
func place(name, path string) error {
	err := os.Link(name, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// Not every file system has links.
	return os.Rename(name, path)
}

// guarded runs what reads the mapped file. The file was verified, but it can be cut off or
// written over while it is open: that is an error, too, and no end of the process.
func guarded(work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damage("%v", p)
		}
	}()
	return work()
}
