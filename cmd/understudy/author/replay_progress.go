package author

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"understudy/admin/report"
	"understudy/authz/replay"
	"understudy/cmd/understudy/terminal"
)

// replayProgress shows how far a replay is, in one line of a terminal. Elsewhere it shows
// nothing.
//
// Files are read by one goroutine, and the line is drawn by another one, so read is atomic.
type replayProgress struct {
	// files are those to replay, of which it counts the bytes.
	files []replay.File
	// total is their size in bytes, 0 if it is not known; read is how much of it was read.
	total int64
	read  atomic.Int64
	// screen is nil if there is no terminal.
	screen *terminal.Redraw
	began  time.Time
	// shown is when it was last drawn.
	shown time.Time
}

// progressInterval is the time between two lines.
//
// It is often enough to look alive, and costs nothing next to a replay.
const progressInterval = 200 * time.Millisecond

// newReplayProgress wraps files so that what is read of them is counted. If the size of one is not
// known, as of a pipe, no share and no time that is left is shown.
func newReplayProgress(w io.Writer, of []logFile) *replayProgress {
	p := &replayProgress{began: time.Now()}
	if terminal.Is(w) {
		p.screen = &terminal.Redraw{To: w}
	}
	known := true
	for _, r := range of {
		p.total, known = p.total+r.size, known && r.size > 0
		p.files = append(p.files, replay.File{Name: r.Name, Open: func() (io.ReadCloser, error) {
			in, err := r.Open()
			return &countedFile{in, &p.read}, err
		}})
	}
	if !known {
		p.total = 0
	}
	return p
}

// countedFile counts the bytes that are read of a file.
//
// Of a file with gzip these are the compressed bytes, as its size is.
type countedFile struct {
	io.ReadCloser
	read *atomic.Int64
}

// Read implements io.Reader.
func (c *countedFile) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// show shows how many entries were replayed, if it is time for that.
func (p *replayProgress) show(entries int64) {
	now := time.Now()
	if p.screen == nil || now.Sub(p.shown) < progressInterval {
		return
	}
	p.shown = now
	p.screen.Draw([]string{p.line(entries, now.Sub(p.began))})
}

// line is "12%  1,234,567 entries  24,000/s  1m20s left".
func (p *replayProgress) line(entries int64, took time.Duration) string {
	text := fmt.Sprintf("%s entries  %s/s", report.Number(entries), report.Number(int64(float64(entries)/max(took.Seconds(), 0.001))))
	if read := p.read.Load(); p.total > 0 && read > 0 {
		// The rate so far goes on: entries of a log are much alike.
		left := time.Duration(float64(took) * float64(max(0, p.total-read)) / float64(read))
		text = fmt.Sprintf("%d%%  %s  %s left", min(100, 100*read/p.total), text, left.Round(time.Second))
	}
	return text
}

// end takes the line away.
func (p *replayProgress) end() {
	if p.screen != nil {
		p.screen.Draw(nil)
	}
}
