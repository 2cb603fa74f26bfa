//go:build !linux

package process

import (
	"os"
	"time"
)

func executable() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// Memory reports false: on this system the process watches itself alone.
func (p *Process) Memory() (int64, bool) { return 0, false }

// ProcessorTime reports false.
func (p *Process) ProcessorTime() (time.Duration, bool) { return 0, false }

// Stopped reports false: it is not known.
func (p *Process) Stopped() bool { return false }
