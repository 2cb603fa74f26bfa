package child

import (
	"sync"
	"sync/atomic"
	"time"

	"understudy/authz/background"
	"understudy/authz/rehearsal/wire"
)

const (
	// watchEvery is the time between two looks at the memory while something is under way:
	// in that time a policy can make some megabytes.
	watchEvery = 5 * time.Millisecond
	// looksPerCheck is how many of them there are for each look at what is under way.
	looksPerCheck = 10
	// scheduling is what each lane that is at work may add to how long another goes on
	// after it was cancelled: Go's scheduler lets a goroutine run for 10 ms.
	scheduling = 100 * time.Millisecond
)

// watchdog looks at what the process uses and ends it when that is too much.
type watchdog struct {
	child *child
	// busy is how many lanes are at work.
	busy atomic.Int64
	wake chan struct{}
	done chan struct{}
	// memory belongs to run.
	memory memory

	mu    sync.Mutex
	lanes map[*lane]bool
}

func newWatchdog(c *child) *watchdog {
	return &watchdog{
		child: c, wake: make(chan struct{}, 1), done: make(chan struct{}), lanes: make(map[*lane]bool),
		memory: memory{bound: c.hello.Memory, tuned: c.options.Bound != nil},
	}
}

func (w *watchdog) add(l *lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes[l] = true
}

func (w *watchdog) remove(l *lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lanes, l)
}

// begin is called when a lane is at work, end when it is not any more.
func (w *watchdog) begin() {
	if w.busy.Add(1) == 1 {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (w *watchdog) end() { w.busy.Add(-1) }

func (w *watchdog) close() { close(w.done) }

// run looks every few milliseconds while a lane is at work, and not at all otherwise.
func (w *watchdog) run() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		ticker.Stop()
		select {
		case <-w.done:
			return
		case <-w.wake:
		}
		ticker.Reset(watchEvery)
		for looks := 1; w.busy.Load() > 0; looks++ {
			select {
			case <-w.done:
				return
			case <-ticker.C:
			}
			w.look(looks%looksPerCheck == 0)
		}
	}
}

// look ends the process if it uses too much. lanes says whether to look at those too.
func (w *watchdog) look(lanes bool) {
	if used, tooMuch := w.memory.look(); tooMuch {
		w.child.end(wire.CauseMemory, 0, 0, used)
		return
	}
	// A lane whose next evaluation takes long has left its last answer to us.
	if w.child.conn.Waiting() > answerDelay {
		_ = w.child.conn.Flush()
	}
	if lanes {
		w.lookAtLanes()
	}
}

// lookAtLanes ends the process if one of its lanes cannot be ended in another way. Time is
// that of the processors which the process had: one that hardly gets any, because others
// go first, is not taken for stuck.
func (w *watchdog) lookAtLanes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, busy := background.ProcessorTime(), time.Duration(max(1, w.busy.Load()))
	for l := range w.lanes {
		under := l.work.Load()
		if under == nil {
			continue
		}
		switch under.frame.Kind {
		case wire.KindCompile:
			if (now-under.begun)/busy > w.child.hello.CompileTime {
				w.child.end(wire.CauseCompileTime, l.number, under.frame.Job, 0)
			}
		default:
			w.lookAtEvaluation(l, under, now, busy)
		}
	}
}

func (w *watchdog) lookAtEvaluation(l *lane, under *work, now, busy time.Duration) {
	switch {
	case under.ctx.Err() == nil:
	case under.late == 0:
		under.late = max(1, now)
	case now-under.late > w.child.hello.StuckTime+busy*scheduling:
		w.child.end(wire.CauseStuck, l.number, under.frame.Job, 0)
	}
}
