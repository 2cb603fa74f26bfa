package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"understudy/authz/rehearsal/process"
)

// Config is what a Supervisor needs. The zero value of each field is a default.
type Config struct {
	// Start starts a child. Nil starts this binary again.
	Start func() (Child, error)
	// Build is the version of this binary: parent and child have to be the same.
	Build string
	// Memory is how much memory the child may use, in bytes. Zero means 256 MiB.
	Memory int64
	// Share is the part of the container's quota of processors that the child gets, from 0
	// to 1. Without a quota the operating system's priorities do. Zero means a quarter.
	Share float64
	// CompileTime bounds a compilation in processor time of the child. Zero means 10 s.
	CompileTime time.Duration
	// StuckTime bounds how long an evaluation goes on after it was cancelled, in processor
	// time of the child. Zero means 2 s.
	StuckTime time.Duration
	// Descriptors is the marshalled descriptor set by which the child reads the bodies of gRPC
	// requests. Empty means that it reads none.
	Descriptors []byte
	// DuplicateKeys has the child read JSON bodies with an object that has a key twice.
	DuplicateKeys bool
	// BodyMemory is how much memory reading bodies may take for live decisions, in bytes. The
	// child takes half of it at most, and a quarter of Memory. Zero is the default of
	// [authz.NewBodyMemory].
	BodyMemory int64
	// Gathering is for how long a request waits for others, so that the child is woken for several.
	// Zero means 5 ms; a negative time means not at all.
	Gathering time.Duration
	// Idle is after what time a child ends that nobody needs. Zero means three minutes.
	Idle time.Duration
	// Overhead is how many times as much processor time, and of the system's memory, the child takes than
	// its work does: 8 with the race detector, whose memory the Go runtime does not count. Zero means 1.
	Overhead int
	// Logger gets deaths and suspensions. Nil means that nothing is logged.
	Logger *slog.Logger
	// Meters makes the metrics. Nil means none.
	Meters metric.MeterProvider
}

// defaultQueue is how many tasks of a lane may wait unless it is said otherwise.
const defaultQueue = 4096

// defaultExaminationBytes is how much memory requests that wait to be examined may hold unless it is said otherwise.
const defaultExaminationBytes = 8 << 20

// DefaultMemory is how much memory the child may use unless it is said otherwise.
const DefaultMemory = 256 << 20

func (c Config) withDefaults() Config {
	if c.Start == nil {
		c.Start = func() (Child, error) { return process.Start() }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Meters == nil {
		c.Meters = noop.NewMeterProvider()
	}
	c.Memory = cmp.Or(c.Memory, DefaultMemory)
	c.Share = cmp.Or(c.Share, 0.25)
	c.CompileTime = cmp.Or(c.CompileTime, 10*time.Second)
	c.StuckTime = cmp.Or(c.StuckTime, 2*time.Second)
	c.Gathering = cmp.Or(c.Gathering, 5*time.Millisecond)
	c.Idle = cmp.Or(c.Idle, 3*time.Minute)
	c.Overhead = cmp.Or(c.Overhead, 1)
	return c
}

// overhead is Overhead for a time.
func (c Config) overhead() time.Duration { return time.Duration(c.Overhead) }

// Child is a rehearsal process.
type Child interface {
	// The stream to the process.
	io.ReadWriteCloser
	// Kill ends it. It may be called at any time and more than once.
	Kill()
	// Wait waits until it has ended and says how.
	Wait() string
	// Memory is what it uses, in bytes, and ProcessorTime what it has used of the
	// processors; false if that is not known.
	Memory() (int64, bool)
	ProcessorTime() (time.Duration, bool)
	// Stopped reports whether somebody has stopped it, by SIGSTOP or a debugger.
	Stopped() bool
}

// Supervisor has the rehearsal process of this process. It starts one when there is
// something to do, and another one when that dies. It is safe for concurrent use.
type Supervisor struct {
	config  Config
	log     *slog.Logger
	metrics *metrics
	refused refusals

	lifecycle
	// unconfined has it said once that the children are not confined.
	unconfined sync.Once

	mu       sync.Mutex
	lanes    map[uint64]*lane
	lastLane uint64
	lastJob  uint64
	// session is the present child; nil if there is none.
	session *session
	suspicion
	// held is the memory of requests that wait to be examined, or are.
	held atomic.Int64
	// earned is the time that examinations may have while decisions wait.
	earned earned
	ended  bool
}

// lifecycle is of the goroutines of a supervisor.
type lifecycle struct {
	// needed wakes the supervisor's goroutine: there is something to do.
	needed chan struct{}
	// closing is closed by Close, and closed when all has ended.
	closing, closed chan struct{}
	lanesRunning    sync.WaitGroup
}

// New returns a Supervisor. It is ended by Close.
func New(config Config) (*Supervisor, error) {
	config = config.withDefaults()
	s := &Supervisor{
		config: config, log: config.Logger, lanes: make(map[uint64]*lane),
		lifecycle: lifecycle{needed: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{})},
	}
	var err error
	if s.metrics, err = newMetrics(config.Meters, s); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	go s.run()
	return s, nil
}

// Close ends the child and all that waits for it, and returns when that has ended.
func (s *Supervisor) Close() {
	s.mu.Lock()
	already := s.ended
	s.ended = true
	if !already {
		close(s.closing)
	}
	var waiting []*task
	for _, l := range s.lanes {
		waiting = append(waiting, l.close()...)
	}
	s.mu.Unlock()
	for _, t := range waiting {
		t.finish(nil, ErrShutdown)
	}
	<-s.closed
	s.lanesRunning.Wait()
}

// The errors of tasks that were not done.
var (
	// ErrShutdown: the supervisor ends.
	ErrShutdown = errors.New("the rehearsal process is being shut down")
	// ErrQueueFull: too many tasks of the lane wait.
	ErrQueueFull = errors.New("too much waits for the rehearsal process")
	// ErrChanged: the experiment was stopped, changed or deleted.
	ErrChanged = errors.New("the experiment was stopped, changed or deleted")
	// ErrUnavailable: the process cannot be started.
	ErrUnavailable = errors.New("the rehearsal process cannot be started")
)

const (
	// firstPause and lastPause bound the time between a death and the next start.
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
	// healthy is after what time a child's death says nothing about the next one.
	healthy = time.Minute
)

// run starts a child whenever there is something to do, until Close.
func (s *Supervisor) run() {
	defer close(s.closed)
	for pause := firstPause; ; {
		select {
		case <-s.closing:
			return
		case <-s.needed:
		}
		begun := time.Now()
		next, err := s.oneChild()
		if err != nil {
			s.unavailable(err)
		}
		if next != later || time.Since(begun) > healthy {
			pause = firstPause
		}
		if next != atOnce && !s.sleep(pause) {
			return
		}
		if next == later {
			pause = min(2*pause, lastPause)
		}
		s.wakeIfNeeded()
	}
}

// oneChild starts a child and returns when it has ended, with when the next may be started.
func (s *Supervisor) oneChild() (next restart, err error) {
	child, err := s.config.Start()
	if err != nil {
		return later, err
	}
	session := newSession(s, child)
	end := session.run()
	s.mu.Lock()
	expected := s.ended || end.cause == causeIdle
	var a attribution
	switch s.session = nil; {
	case !expected:
		a = s.attribute(end, session.given == 1)
	case !s.ended:
		// Nobody needed it, and somebody does since.
		s.putBack()
	}
	s.mu.Unlock()
	switch {
	case expected:
		return atOnce, nil
	case end.cause == causeStart:
		return later, errors.New(end.detail)
	}
	s.report(end, a)
	a.finish()
	return a.next(end), nil
}

// sleep waits. It reports false if the supervisor is closed before.
func (s *Supervisor) sleep(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-s.closing:
		return false
	case <-timer.C:
		return true
	}
}

// need asks for a child.
func (s *Supervisor) need() {
	select {
	case s.needed <- struct{}{}:
	default:
	}
}

// wakeIfNeeded asks for a child if anything waits for one.
func (s *Supervisor) wakeIfNeeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if l.waits() {
			s.need()
			return
		}
	}
}

// unavailable ends all that waits: the child cannot be started.
func (s *Supervisor) unavailable(err error) {
	s.log.Warn("the rehearsal process cannot be started: experiments are not evaluated, and content is not accepted", "error", err)
	s.mu.Lock()
	var waiting []*task
	for _, l := range s.lanes {
		waiting = append(waiting, l.takeAll()...)
	}
	s.suspects = nil
	s.mu.Unlock()
	s.metrics.restarted(context.Background(), causeStart)
	for _, t := range waiting {
		t.finish(nil, fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
}
