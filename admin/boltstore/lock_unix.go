//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file as bbolt does, and reports whether another process holds it.
func tryLock(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
