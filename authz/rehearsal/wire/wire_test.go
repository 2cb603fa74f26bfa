package wire_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
)

// decisions are some of all kinds.
var decisions = []authz.Decision{
	{Effect: authz.Allow, Plain: true, Value: true},
	authz.Decision{Failure: authz.FailureUndefined, Rule: "rules[0]", Reason: "\xff"}.WithRulePath("a/b"),
	authz.Decision{
		HTTPStatus: 429, Body: "later", Headers: []authz.Field{{Name: "a", Value: "b"}}, ResponseHeaders: []authz.Field{{Name: "c", Value: ""}},
		RemoveHeaders: []string{"d"}, SetQuery: []authz.Field{{Name: "e", Value: "f"}}, RemoveQuery: []string{"g", "h"},
		Metadata: map[string]any{"n": json.Number("1e400"), "list": []any{nil, true, "x", map[string]any{}}},
		Value:    map[string]any{"allowed": false, "n": json.Number("0.10")},
	}.WithLeaf(authz.Leaf{1, 1<<64 - 1}),
	{Default: true, Metadata: map[string]any{}},
	{Effect: authz.Allow, Labels: []authz.Label{{Name: "tenant", Value: ""}, {Name: "user", Value: "ä"}}, Value: map[string]any{"allowed": true}},
	{Plain: true, Labels: []authz.Label{{Name: "user", Value: "u"}}, LabelsIgnored: true, Body: "b"},
}

// TestLabelsOfAnotherFormAreRefused: what this process puts into records is bounded and fit
// for one line, whatever the other one sends.
func TestLabelsOfAnotherFormAreRefused(t *testing.T) {
	many := make([]authz.Label, authz.MaxLabels+1)
	for i := range many {
		many[i].Name = string(rune('a' + i))
	}
	for name, labels := range map[string][]authz.Label{
		"too many": many, "no name": {{Value: "x"}}, "a name that is none": {{Name: "a b"}}, "a long value": {{Name: "a", Value: strings.Repeat("x", 129)}},
		"a line break": {{Name: "a", Value: "b\nc"}}, "out of order": {{Name: "b"}, {Name: "a"}}, "twice": {{Name: "a"}, {Name: "a"}},
	} {
		payload, err := wire.AppendDecided(nil, authz.Decision{Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ParseDecided(payload); !errors.Is(err, wire.ErrForm) {
			t.Errorf("%s: got %+v and %v, want ErrForm", name, got.Labels, err)
		}
	}
}

func TestDecidedIsExact(t *testing.T) {
	for i, want := range decisions {
		payload, err := wire.AppendDecided(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		form, leaf := wire.CutLeaf(payload)
		got, err := wire.ParseDecided(form)
		if err != nil {
			t.Fatalf("decision %d: %v", i, err)
		}
		if diff := cmp.Diff(want, got.WithLeaf(leaf), cmp.AllowUnexported(authz.Decision{})); diff != "" {
			t.Errorf("decision %d is another one (-want +got):\n%s", i, diff)
		}
	}
}

// TestALeafIsNoPartOfTheForm: decisions that are made alike have one form, whatever their leaves are.
func TestALeafIsNoPartOfTheForm(t *testing.T) {
	for i, d := range decisions {
		without, err := wire.AppendDecided(nil, d.WithLeaf(authz.Leaf{}))
		if err != nil {
			t.Fatal(err)
		}
		if form, leaf := wire.CutLeaf(slices.Clone(without)); leaf != (authz.Leaf{}) || !slices.Equal(form, without) {
			t.Errorf("decision %d: the leaf %v is cut, of a decision without one", i, leaf)
		}
		for _, want := range []authz.Leaf{{1, 2}, {0, 3}, {1 << 63, 0}} {
			with, err := wire.AppendDecided(nil, d.WithLeaf(want))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := wire.ParseDecided(with); !errors.Is(err, wire.ErrForm) {
				t.Errorf("decision %d: with its leaf it is read with the error %v, want ErrForm", i, err)
			}
			if form, leaf := wire.CutLeaf(with); leaf != want || !slices.Equal(form, without) {
				t.Errorf("decision %d: got the leaf %v, want %v, and the form %q, want %q", i, leaf, want, form, without)
			}
		}
	}
}

// TestNestingIsBoundedAlike nests values up to the depth that the other side takes, and deeper.
func TestNestingIsBoundedAlike(t *testing.T) {
	sent := 0
	for depth := 10_090; depth < 10_110; depth++ {
		var value any
		for i := range depth {
			if value = []any{value}; i%2 == 0 {
				value = map[string]any{"x": value.([]any)[0]}
			}
		}
		payload, err := wire.AppendDecided(nil, authz.Decision{Value: value, Metadata: map[string]any{"m": value}})
		if err != nil {
			continue
		}
		sent++
		if _, err := wire.ParseDecided(payload); err != nil {
			t.Fatalf("a value nested %d deep is sent and not understood: %v", depth, err)
		}
	}
	if sent == 0 || sent == 20 {
		t.Errorf("%d of 20 depths are sent, want some", sent)
	}
}

var requests = []wire.DecisionRequest{
	{Time: time.Unix(1, 2), ID: "x", Asked: wire.Document{Facts: wire.Facts{Operation: authz.OperationCheck}, Input: []byte{}}},
	{Time: time.Unix(1, 2), ID: "x", Timeout: time.Minute, Asked: wire.Check("a CheckRequest")},
	{Plain: true, Time: time.Unix(0, 0), Asked: wire.Check("")},
	{Time: time.Unix(1, 2), Timeout: time.Second, Plain: true, Asked: wire.Document{
		Facts: wire.Facts{
			Operation: authz.OperationCheckCreate, Method: "check-create", Host: "h", Principal: "p", Path: "/",
			Project: authz.Project{ID: "i", Name: "n", Domain: "d"},
			Reservation: &authz.Reservation{
				Lease: map[string]any{"n": json.Number("10000000000000001")}, Start: time.Unix(3, 0).UTC(), Project: "q", Invalid: "why",
			},
		},
		Input: []byte("input"),
	}},
	{Time: time.Unix(0, 0), Asked: wire.Document{Unreadable: &authz.BadRequest{Reason: "The body does not parse.", Failure: authz.FailureDuplicateKey}}},
}

func TestQuestionIsExact(t *testing.T) {
	for i, want := range requests {
		payload, err := wire.AppendDecisionRequest(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.ParseDecisionRequest(payload)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request %d is another one (-want +got):\n%s", i, diff)
		}
	}
}

// FuzzParse shows that no payload panics.
func FuzzParse(f *testing.F) {
	for _, d := range decisions {
		payload, _ := wire.AppendDecided(nil, d)
		f.Add(payload)
	}
	for _, q := range requests {
		payload, _ := wire.AppendDecisionRequest(nil, q)
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		form, leaf := wire.CutLeaf(slices.Clone(payload))
		if d, err := wire.ParseDecided(form); err == nil {
			again, err := wire.AppendDecided(nil, d.WithLeaf(leaf))
			if err != nil {
				t.Errorf("what was parsed cannot be encoded: %v", err)
			}
			if _, other := wire.CutLeaf(again); other != leaf {
				t.Errorf("the leaf %v is %v after it was encoded again", leaf, other)
			}
			if len(d.Labels) > authz.MaxLabels || slices.ContainsFunc(d.Labels, func(l authz.Label) bool { return !l.Valid() }) {
				t.Errorf("the labels are %q", d.Labels)
			}
		}
		if q, err := wire.ParseDecisionRequest(payload); err == nil {
			if _, err := wire.AppendDecisionRequest(nil, q); err != nil {
				t.Errorf("what was parsed cannot be encoded: %v", err)
			}
		}
	})
}

// stream is one end of nothing but bytes.
type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }

// FuzzReceive shows that no bytes panic, or make a frame that is larger than they are.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{17, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		r, w := net.Pipe()
		go func() {
			_, _ = w.Write(bytes)
			_ = w.Close()
		}()
		conn := wire.NewConn(stream{r, io.Discard})
		defer func() { _ = r.Close() }()
		for {
			frame, err := conn.Receive()
			if err != nil {
				return
			}
			if len(frame.Payload) > len(bytes) {
				t.Fatalf("a frame of %d bytes was made of %d", len(frame.Payload), len(bytes))
			}
		}
	})
}

// TestFramesKeepTheirOrder sends from many goroutines: each one's frames come in its order,
// and none is lost or torn.
func TestFramesKeepTheirOrder(t *testing.T) {
	const senders, frames = 8, 500
	a, b := net.Pipe()
	out, in := wire.NewConn(a), wire.NewConn(b)
	var sending sync.WaitGroup
	for lane := range uint64(senders) {
		sending.Go(func() {
			for job := range uint64(frames) {
				f := wire.Frame{Kind: wire.KindEvaluate, Lane: lane, Job: job, Payload: make([]byte, job)}
				if job%3 == 0 {
					out.SendLater(f)
				} else if err := out.Send(f); err != nil {
					t.Error(err)
				}
			}
			if err := out.Flush(); err != nil {
				t.Error(err)
			}
		})
	}
	go func() {
		sending.Wait()
		_ = out.Flush()
		_ = out.Close()
	}()
	next := make([]uint64, senders)
	for {
		f, err := in.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v, want EOF", err)
			}
			break
		}
		if f.Job != next[f.Lane] || uint64(len(f.Payload)) != f.Job {
			t.Fatalf("lane %d: got job %d with %d bytes, want job %d", f.Lane, f.Job, len(f.Payload), next[f.Lane])
		}
		next[f.Lane]++
	}
	for lane, n := range next {
		if n != frames {
			t.Errorf("lane %d: %d frames came, want %d", lane, n, frames)
		}
	}
}

// slowStream is a stream whose first write waits until the test goes on.
type slowStream struct {
	stream
	begun, goOn chan struct{}
	written     []byte
}

func (s *slowStream) Write(b []byte) (int, error) {
	if s.written == nil {
		close(s.begun)
		<-s.goOn
	}
	s.written = append(s.written, b...)
	return len(b), nil
}

// TestTheLastFrameIsWritten sends a frame while another goroutine is writing: the frame is written before the
// sender goes on, which ends the process.
func TestTheLastFrameIsWritten(t *testing.T) {
	s := &slowStream{begun: make(chan struct{}), goOn: make(chan struct{})}
	conn := wire.NewConn(s)
	var sending sync.WaitGroup
	sending.Go(func() {
		if err := conn.Send(wire.Frame{Kind: wire.KindDecided}); err != nil {
			t.Error(err)
		}
	})
	testkit.Closed(t, "the write to begin", s.begun)
	sending.Go(func() {
		if err := conn.SendLast(wire.Frame{Kind: wire.KindEnding, Payload: []byte("because")}); err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(string(s.written), "because") {
			t.Errorf("%q is written when the sender goes on, want the last frame in it", s.written)
		}
	})
	testkit.Await(t, "the last frame is pending", func() bool { return conn.Waiting() > 0 })
	close(s.goOn)
	sending.Wait()
}

// TestAbout puts what is asked for before a request, and takes it off again.
func TestAbout(t *testing.T) {
	want := wire.DecisionRequest{ID: "id", Time: time.Unix(1, 0).Local(), Timeout: time.Second, About: []byte(`{"Path":"a"}`), Asked: wire.Check("in")}
	payload, err := wire.AppendDecisionRequest(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.ParseDecisionRequest(payload)
	if err != nil || string(got.About) != `{"Path":"a"}` || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v; want what was put in", got, err)
	}
	for n := range payload {
		if q, err := wire.ParseDecisionRequest(payload[:n]); err == nil && q.Asked == want.Asked {
			t.Errorf("the first %d bytes are taken for the whole", n)
		}
	}
}
