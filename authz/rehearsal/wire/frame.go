package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Kind says what a frame is.
type Kind byte

// The frames from the parent to the child.
const (
	// KindHello is the first frame of a connection; it has a Hello.
	KindHello Kind = iota + 1
	// KindCompile makes a policy the one of its lane. It has the marshalled policy and is
	// answered by KindCompiled.
	KindCompile
	// KindTest runs the tests of a policy. It has a TestRequest and is answered by KindTested.
	KindTest
	// KindEvaluate decides a request by the policy of its lane. It has a DecisionRequest and is
	// answered by KindDecided.
	KindEvaluate
	// KindBlame finds the rule that decides otherwise by shortcut than without. It has a
	// DecisionRequest about a Check and is answered by KindBlamed.
	KindBlame
	// KindAnswer answers a KindCall.
	KindAnswer
	// KindClose forgets a lane. What is under way in it is cancelled; nothing is answered.
	KindClose
	// KindPing is answered by KindPong at once.
	KindPing
	// KindTrace evaluates one Rego rule of the policy of its lane with a trace. It has a
	// TraceRequest with a DecisionRequest and is answered by KindTraced.
	KindTrace
	// KindItems finds out in what the policy of its lane differs from a live one. It has an
	// ItemsRequest and is answered by KindListed.
	KindItems
	// KindShow evaluates a request by both policies of the last KindItems to find out what it shows
	// of their items. It has a ShowRequest with a DecisionRequest and is answered by KindShown.
	KindShow
	// KindCompare finds out in what two policies differ, neither of which is that of its lane. It has a
	// CompareRequest and is answered by KindCompared.
	KindCompare
)

// Examines reports whether a frame asks for what is not compared, and may take much longer than a decision.
func (k Kind) Examines() bool { return k == KindTrace || k == KindItems || k == KindShow }

// The frames from the child to the parent.
const (
	// KindReady answers KindHello. It has a Ready.
	KindReady Kind = iota + 65
	// KindCompiled has a Compiled.
	KindCompiled
	// KindTested has a Tested.
	KindTested
	// KindDecided has a decision.
	KindDecided
	// KindBlamed has a Blamed.
	KindBlamed
	// KindCall asks the parent to call an external service, for the job under way in a lane.
	// It has a Call.
	KindCall
	// KindPong answers KindPing.
	KindPong
	// KindEnding says why the child ends now. It has an Ending.
	KindEnding
	// KindTraced has a Traced.
	KindTraced
	// KindListed has a Listed.
	KindListed
	// KindShown has a Shown.
	KindShown
	// KindCompared has a Compared.
	KindCompared
)

const (
	// MaxDecided bounds the payload of a KindDecided, in bytes.
	MaxDecided = 1 << 20
	// MaxTraced bounds the payload of a KindTraced, in bytes.
	MaxTraced = 256 << 10
	// MaxCompared bounds the payload of a KindCompared, in bytes.
	MaxCompared = 8 << 20
	// MaxDecisionRequest bounds the payload of a KindEvaluate, in bytes.
	MaxDecisionRequest = 16 << 20
	// maxFrame bounds any frame: a policy is as large as the operator allows.
	maxFrame = 1 << 30
	// headerSize is that of a frame: the length of what follows it, the kind, the lane and
	// the job.
	headerSize = 4 + 1 + 8 + 8
)

// Frame is one message.
type Frame struct {
	Kind Kind
	// Lane is the lane that it belongs to; zero for none.
	Lane uint64
	// Job is the number of what is asked in a lane, which its answer has too.
	Job     uint64
	Payload []byte
}

// ErrFrame is the error of bytes that are no frame, or none that may be sent.
var ErrFrame = errors.New("rehearsal: this is no frame")

// Conn sends and receives frames. Any number of goroutines may send; one receives.
type Conn struct {
	stream io.ReadWriteCloser
	reader *bufio.Reader

	mu sync.Mutex
	// pending are the frames that are not written yet, since the time that is given.
	pending []byte
	since   time.Time
	// spare is the buffer that is not in use.
	spare []byte
	// writing says that a goroutine is writing, which will write what is pending too, and written is signalled when
	// it has.
	writing bool
	written *sync.Cond
	err     error
}

// NewConn returns a Conn on a stream, which it owns.
func NewConn(stream io.ReadWriteCloser) *Conn {
	c := &Conn{stream: stream, reader: bufio.NewReaderSize(stream, 64<<10)}
	c.written = sync.NewCond(&c.mu)
	return c
}

// Close closes the stream: it ends what is sent and received.
func (c *Conn) Close() error { return c.stream.Close() }

// Send sends a frame, with all that is pending, unless another goroutine does so by
// itself. The error is that of an earlier frame, or of this one: then no more are sent.
func (c *Conn) Send(f Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(f)
	return c.flush()
}

// SendLast is Send for the last frame of a process: it returns when the frame is written, even if another
// goroutine writes it.
func (c *Conn) SendLast(f Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(f)
	for c.writing {
		c.written.Wait()
	}
	return c.flush()
}

// SendLater is Send of a frame that may wait for the next: who uses it calls Flush in time.
func (c *Conn) SendLater(f Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(f)
}

// Flush writes what is pending.
func (c *Conn) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

// Waiting is for how long the oldest frame has been pending; zero if none is.
func (c *Conn) Waiting() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return 0
	}
	return time.Since(c.since)
}

// add appends a frame to what is pending. The lock is held.
func (c *Conn) add(f Frame) {
	if c.err != nil {
		return
	}
	if len(f.Payload) > maxFrame-headerSize {
		c.err = ErrFrame
		return
	}
	if len(c.pending) == 0 {
		c.since = time.Now()
	}
	c.pending = binary.LittleEndian.AppendUint32(c.pending, uint32(headerSize-4+len(f.Payload)))
	c.pending = append(c.pending, byte(f.Kind))
	c.pending = binary.LittleEndian.AppendUint64(c.pending, f.Lane)
	c.pending = binary.LittleEndian.AppendUint64(c.pending, f.Job)
	c.pending = append(c.pending, f.Payload...)
}

// maxKept is the size of the largest buffer that is kept, in bytes.
const maxKept = 256 << 10

// flush writes what is pending until nothing is. The lock is held, but not while writing:
// what others send in the meantime is written with one call.
func (c *Conn) flush() error {
	if c.writing {
		return c.err
	}
	c.writing = true
	for len(c.pending) > 0 && c.err == nil {
		out := c.pending
		c.pending, c.spare = c.spare[:0], nil
		c.mu.Unlock()
		_, err := c.stream.Write(out)
		c.mu.Lock()
		if cap(out) <= maxKept {
			c.spare = out
		}
		if err != nil && c.err == nil {
			c.err = fmt.Errorf("writing: %w", err)
		}
	}
	c.writing = false
	c.written.Broadcast()
	return c.err
}

// Receive returns the next frame, whose payload is the caller's. The error is that of the
// stream: io.EOF if the other side has closed it.
func (c *Conn) Receive() (Frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(c.reader, header[:]); err != nil {
		return Frame{}, err
	}
	size := int64(binary.LittleEndian.Uint32(header[:])) - (headerSize - 4)
	if size < 0 || size > maxFrame {
		return Frame{}, ErrFrame
	}
	f := Frame{
		Kind: Kind(header[4]), Lane: binary.LittleEndian.Uint64(header[5:]), Job: binary.LittleEndian.Uint64(header[13:]),
	}
	var err error
	f.Payload, err = readPayload(c.reader, int(size))
	return f, err
}

// readPayload reads so many bytes. It does not believe the size of a large one before it
// has come.
func readPayload(r io.Reader, size int) ([]byte, error) {
	const believed = 1 << 20
	if size <= believed {
		payload := make([]byte, size)
		_, err := io.ReadFull(r, payload)
		return payload, err
	}
	payload, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(payload) < size {
		err = io.ErrUnexpectedEOF
	}
	return payload, err
}
