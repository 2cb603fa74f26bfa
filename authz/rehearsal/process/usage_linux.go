package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// self is this binary, even if its file has been replaced.
const self = "/proc/self/exe"

func executable() string {
	if _, err := os.Stat(self); err == nil {
		return self
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// ticksPerSecond is the unit of times in /proc, on every system that Linux still runs on.
const ticksPerSecond = 100

// Memory is what the process has of the machine's memory for itself alone, in bytes. It
// reports false if that is not known.
func (p *Process) Memory() (int64, bool) {
	fields := p.read("statm")
	if len(fields) < 3 {
		return 0, false
	}
	resident, err := strconv.ParseInt(fields[1], 10, 64)
	shared, other := strconv.ParseInt(fields[2], 10, 64)
	return (resident - shared) * int64(os.Getpagesize()), err == nil && other == nil
}

// ProcessorTime is what the process has used of the processors. It reports false if that
// is not known.
func (p *Process) ProcessorTime() (time.Duration, bool) {
	fields := p.read("stat")
	if len(fields) < 13 {
		return 0, false
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, other := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / ticksPerSecond), err == nil && other == nil
}

// Stopped reports whether somebody has stopped the process, by SIGSTOP or a debugger.
func (p *Process) Stopped() bool {
	fields := p.read("stat")
	return len(fields) > 0 && (fields[0] == "T" || fields[0] == "t")
}

// read returns the fields of a file about the process, without number and name.
func (p *Process) read(name string) []string {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/" + name)
	if err != nil {
		return nil
	}
	if name == "stat" {
		// The name is in brackets, and may have some itself.
		content = content[bytes.LastIndexByte(content, ')')+1:]
	}
	return strings.Fields(string(content))
}
