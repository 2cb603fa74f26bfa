package tokens

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// exposed are the permissions of a file that let others read or write it, or its group write it.
const exposed fs.FileMode = 0o027

// CheckMode returns an error that names the mode of a file which others can read or write, and the
// mend: who writes a token file decides who is known, and who reads a token is its bearer. What is
// not a file on a disk, such as a pipe, is as private as anyone who made it wanted. Windows has other
// permissions.
func CheckMode(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if mode := info.Mode(); runtime.GOOS != "windows" && mode.IsRegular() && mode.Perm()&exposed != 0 {
		return fmt.Errorf("%s: its mode is %#o, so that others can read or write it: chmod 0600, or 0640 if its group reads it (in Kubernetes defaultMode: 0440 of the volume, with fsGroup)",
			file.Name(), mode.Perm())
	}
	return nil
}

// Hide takes from a file what CheckMode refuses, and with alone what others can do at all.
func Hide(file *os.File, alone bool) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS == "windows" {
		return err
	}
	remove := exposed
	if alone {
		remove = 0o077
	}
	if info.Mode().Perm()&remove == 0 {
		return nil
	}
	return file.Chmod(info.Mode().Perm() &^ remove)
}
