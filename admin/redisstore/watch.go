package redisstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"understudy/authz"
)

// watchTime is for how long one blocking read waits. After that followers look
// whether their cursor still is of this Redis.
const watchTime = 2 * time.Second

// watches waits for changes on behalf of all followers of this process: with one
// connection for each location, however many follow it.
type watches struct {
	client redis.UniversalClient
	// running counts the goroutines, which end by themselves when nobody waits any
	// more, and at once when the client is closed.
	running sync.WaitGroup

	mu sync.Mutex
	// byLocation holds the locations that are watched now.
	byLocation map[authz.Location]*watch
}

// watch is the watch of one location.
type watch struct {
	// news is closed when followers have to look again, and replaced.
	news chan struct{}
	// wanted says that someone has begun to wait since the last news, and from is
	// the lowest sequence behind which one of them waits.
	wanted bool
	from   int64
}

// newWatches watches nothing yet. The client has to have a connection for each location
// that is followed, for a read that waits holds one.
func newWatches(client redis.UniversalClient) *watches {
	return &watches{client: client, byLocation: make(map[authz.Location]*watch)}
}

// await returns nil when there may be a change after the cursor: that has to be
// read, and may be none, or an error.
func (w *watches) await(ctx context.Context, location authz.Location, after authz.Cursor) error {
	select {
	case <-w.join(location, after.Sequence):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the channel that is closed when there is news, and starts the watch of a
// location if there is none: however many follow it, one connection waits.
func (w *watches) join(location authz.Location, from int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.byLocation[location]
	if watched == nil {
		watched = &watch{news: make(chan struct{})}
		w.byLocation[location] = watched
		defer w.running.Go(func() { w.watch(location, watched) })
	}
	if !watched.wanted || from < watched.from {
		watched.wanted, watched.from = true, from
	}
	return watched.news
}

// watch reads until nobody waits.
func (w *watches) watch(location authz.Location, watched *watch) {
	for {
		from, wanted := w.begin(location, watched)
		if !wanted {
			return
		}
		// What it read, or why it could not, the followers find out themselves.
		_ = w.client.XRead(context.Background(), &redis.XReadArgs{
			Streams: []string{keysOf(string(location)).changes(), strconv.FormatInt(from, 10)},
			Count:   1,
			Block:   watchTime,
		}).Err()
		w.announce(watched)
	}
}

// begin returns from where to read, or ends the watch if nobody waits.
func (w *watches) begin(location authz.Location, watched *watch) (from int64, wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !watched.wanted {
		delete(w.byLocation, location)
	}
	return watched.from, watched.wanted
}

// announce wakes all who wait. Each reads for itself, from its own cursor, and waits
// again if there is nothing behind that.
func (w *watches) announce(watched *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(watched.news)
	watched.news, watched.wanted = make(chan struct{}), false
}

// wait returns when all goroutines have ended. The client is closed before.
func (w *watches) wait() { w.running.Wait() }
