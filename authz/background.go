package authz

import (
	"runtime"
	"sync"
)

// largePolicy is the size from which a policy is compiled in the background, in bytes:
// smaller ones take a few milliseconds.
const largePolicy = 64 << 10

// background runs long work so that the traffic feels little of it, and returns when it
// has ended. OPA's compiler has no place at which it could give way, and would keep one
// of the processors that Go's scheduler shares out, and its core, for seconds. So it
// gets a processor of its own beside those, and a thread that the system runs only as
// far as others leave it time.
func background(work func()) {
	addProcessor(1)
	defer addProcessor(-1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It is not unlocked: the thread ends with the goroutine, and its priority with it.
		runtime.LockOSThread()
		lowerPriority()
		work()
	}()
	<-done
}

// processors are what Go's scheduler shares out beside its usual number.
var processors struct {
	sync.Mutex
	usual, added int
}

func addProcessor(n int) {
	processors.Lock()
	defer processors.Unlock()
	if processors.added == 0 {
		processors.usual = runtime.GOMAXPROCS(0)
	}
	if processors.added += n; processors.added > 0 {
		runtime.GOMAXPROCS(processors.usual + processors.added)
		return
	}
	// From here on the number follows the container's limit again, unless the
	// environment sets one.
	runtime.SetDefaultGOMAXPROCS()
}
