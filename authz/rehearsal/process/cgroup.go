package process

import (
	"os"
	"strconv"
	"strings"
)

// The files of a container's own group, as cgroup v2 has them.
const (
	groupProcessors = "/sys/fs/cgroup/cpu.max"
	groupLimit      = "/sys/fs/cgroup/memory.max"
	groupMemory     = "/sys/fs/cgroup/memory.current"
	groupStatistics = "/sys/fs/cgroup/memory.stat"
)

// Quota is how many processors the container may use, such as 0.5; false if as many as
// there are.
func Quota() (float64, bool) {
	fields := strings.Fields(readFile(groupProcessors))
	if len(fields) != 2 {
		return 0, false
	}
	quota, err := strconv.ParseFloat(fields[0], 64)
	period, other := strconv.ParseFloat(fields[1], 64)
	if err != nil || other != nil || period <= 0 {
		return 0, false
	}
	return quota / period, true
}

// MemoryLimit is how much memory the container may use, in bytes; false if that is not
// bounded.
func MemoryLimit() (int64, bool) { return readNumber(groupLimit) }

// MemoryLeft is how much memory the container may still use, in bytes, given its limit;
// false if that is not known. What the system keeps of files and can give up is not
// counted as used.
func MemoryLeft(limit int64) (int64, bool) {
	used, ok := readNumber(groupMemory)
	if !ok || used < limit/10*9 {
		return limit - used, ok
	}
	for line := range strings.Lines(readFile(groupStatistics)) {
		if text, found := strings.CutPrefix(line, "inactive_file "); found {
			files, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return limit - used + files, err == nil
		}
	}
	return limit - used, true
}

func readNumber(path string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(readFile(path)), 10, 64)
	return n, err == nil
}

func readFile(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(content)
}
