package background

import (
	"runtime"
	"sync"

	"understudy/authz/diagnostics"
)

// large is the size from which work is done in the background, in bytes of a policy:
// less takes a few milliseconds.
const large = 64 << 10

// inBackground bounds the works in the background: each has a thread and a processor.
var inBackground = make(chan struct{}, 4)

// Run runs work on so many bytes and returns when it has ended. If they are many, the
// traffic feels little of it: OPA's compiler and the decoders of JSON and protobuf have
// no place at which they could give way, and would keep one of the processors that Go's
// scheduler shares out, and its core, for seconds. So the work gets a processor of its
// own next to those, and a thread that the system runs only as far as others leave it
// time; unless there is much of it in the background already. It is for work that needs a
// processor: one that waits, as for a store, would hold its place meanwhile. A panic in
// work is raised again in the caller.
func Run(bytes int, work func()) {
	if bytes < large {
		work()
		return
	}
	select {
	case inBackground <- struct{}{}:
	default:
		work()
		return
	}
	addProcessor(1)
	defer leaveBackground()
	elsewhere(func() {
		// It is not unlocked: the thread ends with the goroutine, and its priority with it.
		runtime.LockOSThread()
		lowerPriority()
		work()
	})
}

func leaveBackground() {
	addProcessor(-1)
	<-inBackground
}

// elsewhere runs work in a goroutine of its own and returns when it has ended. A panic in
// work is raised again in the caller.
func elsewhere(work func()) {
	var failure *diagnostics.Rethrown
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if cause := recover(); cause != nil {
				failure = diagnostics.Rethrow(cause)
			}
		}()
		work()
	}()
	<-done
	if failure != nil {
		panic(failure)
	}
}

// processors are what Go's scheduler shares out next to its usual number.
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
