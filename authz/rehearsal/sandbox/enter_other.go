//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"runtime"
)

// Enter fails: here is no sandbox for this system.
func Enter() error {
	return errors.New("there is no sandbox for " + runtime.GOOS + "/" + runtime.GOARCH)
}
