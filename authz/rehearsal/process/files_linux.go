package process

import (
	"os"
	"strconv"
	"syscall"
)

// keepFiles keeps files from being inherited that this process has inherited itself: what
// Go opens is not, but who has started us may have left some open.
func keepFiles() {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, f := range files {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
