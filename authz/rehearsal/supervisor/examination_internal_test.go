package supervisor

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestExaminationsHaveAFifth of the time while decisions wait, whatever each takes, and a long one does not keep
// the others for long.
func TestExaminationsHaveAFifth(t *testing.T) {
	for _, examination := range []time.Duration{20 * time.Microsecond, time.Millisecond, 300 * time.Millisecond} {
		var e earned
		var decided, examined time.Duration
		for range 1_000_000 {
			if e > 0 {
				e.spend(examination, true)
				examined += examination
				continue
			}
			e.spend(100*time.Microsecond, false)
			decided += 100 * time.Microsecond
		}
		if share := float64(examined-examination) / float64(decided+examined); share > 0.2 || share < 0.15 {
			t.Errorf("examinations of %v have %.3f of the time, want a fifth", examination, share)
		}
	}
	var e earned
	e.spend(time.Hour, true)
	for range 4 {
		e.spend(time.Second+time.Microsecond, false)
	}
	if e <= 0 {
		t.Errorf("after an hour, and four seconds of decisions, it has earned %v", time.Duration(e))
	}
}

// waiting is a supervisor with a session and two lanes, of which the first has examinations that wait.
func waiting(n int) (s *Supervisor, first, second *lane) {
	s = &Supervisor{lanes: make(map[uint64]*lane), session: &session{}}
	for i := range uint64(2) {
		s.lanes[i] = &lane{s: s, number: i, changed: sync.NewCond(&s.mu), laneOptions: laneOptions{examinationBytes: defaultExaminationBytes}}
	}
	for range n {
		if err := s.lanes[0].offer(examining(1, false)); err != nil {
			panic(err)
		}
	}
	return s, s.lanes[0], s.lanes[1]
}

// examining is a task to examine a request of so many bytes.
func examining(bytes int, kept bool) *task {
	return &task{examination: &Examination{Bytes: bytes, Kept: func() bool { return kept }}, done: func([]byte, error) {}}
}

// TestWhenExaminationsGo tells an idle process from one that decides.
func TestWhenExaminationsGo(t *testing.T) {
	decision, compilation := &task{}, &task{internal: true}
	for name, tt := range map[string]struct {
		set  func(s *Supervisor, first, second *lane)
		want bool
	}{
		"idle":                         {func(*Supervisor, *lane, *lane) {}, true},
		"no process":                   {func(s *Supervisor, _, _ *lane) { s.session = nil }, false},
		"a decision waits":             {func(_ *Supervisor, _, l *lane) { l.queue = []*task{decision} }, false},
		"a decision waits in its lane": {func(_ *Supervisor, l, _ *lane) { l.queue = []*task{decision} }, false},
		"decisions wait for others":    {func(_ *Supervisor, _, l *lane) { l.queue, l.gathers = []*task{decision}, true }, true},
		"one is made":                  {func(_ *Supervisor, _, l *lane) { l.underWay = []*task{decision} }, false},
		"a policy is compiled":         {func(_ *Supervisor, _, l *lane) { l.underWay = []*task{compilation} }, false},
		"one is examined":              {func(_ *Supervisor, l, _ *lane) { l.underWay = []*task{examining(1, false)} }, false},
		"one is examined elsewhere":    {func(_ *Supervisor, _, l *lane) { l.underWay = []*task{examining(1, false)} }, true},
		"the share is nearly used up":  {func(s *Supervisor, _, _ *lane) { s.session.scarce = true }, false},
		"it was earned":                {func(s *Supervisor, _, l *lane) { l.underWay, s.earned = []*task{decision}, 1 }, true},
		"it was not":                   {func(s *Supervisor, _, l *lane) { l.underWay, s.earned = []*task{decision}, -1 }, false},
		"it is tried alone": {func(s *Supervisor, l, _ *lane) {
			s.session.scarce, s.suspects = true, []suspect{{l, l.examinations[0]}}
		}, true},
		"whatever was spent, it's idle": {func(s *Supervisor, _, _ *lane) { s.earned = earned(mostSpent) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, first, second := waiting(1)
			tt.set(s, first, second)
			if got := first.mayExamine(); got != tt.want {
				t.Errorf("it may be examined: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestTheOldestMakesRoom for an examination; what is kept does not, and what was taken is given back.
func TestTheOldestMakesRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes int
		left  int
	}{"many": {bytes: 1, left: maxExaminations}, "large": {bytes: 100, left: 10}} {
		t.Run(name, func(t *testing.T) {
			s, l, other := waiting(0)
			l.examinationBytes, other.examinationBytes = 1000, 1000
			example := examining(tt.bytes, true)
			if err := l.offer(example); err != nil {
				t.Fatal(err)
			}
			var shed []int
			for i := range maxExaminations + 2 {
				one := examining(tt.bytes, false)
				one.done = func(_ []byte, err error) {
					if !errors.Is(err, ErrQueueFull) {
						t.Errorf("one is ended with %v", err)
					}
					shed = append(shed, i)
				}
				if err := l.offer(one); err != nil {
					t.Fatal(err)
				}
			}
			if len(l.examinations) != tt.left || l.examinations[0] != example || !slices.IsSorted(shed) || len(shed) != maxExaminations+3-tt.left {
				t.Errorf("%d are left and %d have made room, want %d and the first the one that is kept", len(l.examinations), len(shed), tt.left)
			}
			if want := int64(tt.left * tt.bytes); s.held.Load() != want {
				t.Errorf("%d bytes are held, want %d", s.held.Load(), want)
			}
			if err := other.offer(examining(1000, false)); !errors.Is(err, ErrQueueFull) {
				t.Errorf("another lane has room for what is too large: %v", err)
			}
			for _, one := range l.takeAll() {
				one.done = func([]byte, error) {}
				one.finish(nil, ErrChanged)
			}
			if s.held.Load() != 0 {
				t.Errorf("%d bytes are held, want none", s.held.Load())
			}
		})
	}
	_, l, _ := waiting(0)
	for range maxExaminations {
		if err := l.offer(examining(1, true)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.offer(examining(1, true)); !errors.Is(err, ErrQueueFull) {
		t.Errorf("there is room for more examples than may wait: %v", err)
	}
}
