package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/authz/background"
)

const (
	// patience is for how long a call is tried again while nothing of it can have
	// reached Redis, lostPatience while it may have.
	patience     = time.Second
	lostPatience = 5 * time.Second

	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// call makes a call that only reads, or that does no harm when repeated, and tries
// again for a moment if Redis is lost.
func call(ctx context.Context, doing string, f func(context.Context) error) error {
	_, err := attempt(ctx, patience, f)
	return failure(ctx, doing, err, false)
}

// callOnce makes a call whose effect the caller has to know. f has to be safe to
// repeat; as long as an answer may have been lost, it is repeated to find out.
func callOnce(ctx context.Context, doing string, f func(context.Context) error) error {
	lost, err := attempt(ctx, lostPatience, f)
	return failure(ctx, doing, err, lost)
}

// attempt calls f until it succeeds, fails for good or the time is over: patience,
// or longer once an answer was lost.
func attempt(ctx context.Context, longer time.Duration, f func(context.Context) error) (lost bool, err error) {
	var fate fate
	marked := context.WithValue(ctx, fateKey{}, &fate)
	begin := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := ctx.Err(); err != nil {
			return fate.lost.Load(), err
		}
		err = f(marked)
		if err == nil || !isTransient(err) {
			return err != nil && fate.lost.Load(), err
		}
		limit := patience
		if fate.lost.Load() {
			limit = longer
		}
		if time.Since(begin)+pause > limit || !background.Sleep(ctx, pause) {
			return fate.lost.Load(), err
		}
	}
}

// failure turns the error of a call into one that admin.Store names.
func failure(ctx context.Context, doing string, err error, lost bool) error {
	switch {
	case err == nil:
		return nil
	case lost:
		return fmt.Errorf("%s: %w: %w", doing, admin.ErrOutcomeUnknown, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case isNoFunction(err):
		return fmt.Errorf("%s: %w: %w", doing, admin.ErrUnavailable, ErrNoFunctions)
	case isTooOld(err):
		return fmt.Errorf("%s: %w: %w: %w", doing, admin.ErrUnavailable, ErrTooOld, err)
	case isRefusal(err):
		return fmt.Errorf("%s: %w: %w: %w", doing, admin.ErrUnavailable, ErrRefused, err)
	case isWrongType(err):
		return fmt.Errorf("%s: %w: %w: %w", doing, admin.ErrUnavailable, ErrWrongType, err)
	default:
		return fmt.Errorf("%s: %w: %w", doing, admin.ErrUnavailable, err)
	}
}

// ErrRefused says that Redis answers, and does not let this client do what it has to.
var ErrRefused = errors.New("refused by Redis; correct the user and the password in the URL of the store, " +
	"or give that user of Redis the rights of its part: deploy/redis/users.conf has a user for servers of the " +
	"admin API, and one for the sidecars of a location")

// ErrNoPrimary says that the Sentinels answer, and know no primary of the name in the URL.
var ErrNoPrimary = errors.New("the Sentinels know no primary of this name: correct NAME in the URL of the store, redis+sentinel://host:port/NAME")

// isRefusal reports whether Redis does not take the user or the password, or does not
// let the user do what was asked.
func isRefusal(err error) bool {
	if !isReply(err) {
		return false
	}
	for _, prefix := range []string{"WRONGPASS ", "NOAUTH ", "NOPERM "} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	// What a function calls is checked too. That error has no code of its own: the first text is
	// that of Redis 7.0, the second that of later versions and of Valkey.
	return strings.Contains(err.Error(), "The user executing the script can't ") || strings.Contains(err.Error(), "ACL failure in script: ")
}

// ErrWrongType says that a key is not what this store keeps under it. The answer of Redis
// behind it names the key, its type and the one that it has to be.
var ErrWrongType = errors.New("another program has written a key of this store; delete that key, and what was in it before is lost")

// isWrongType reports whether a key has another type than it has to.
func isWrongType(err error) bool {
	return isReply(err) && strings.HasPrefix(err.Error(), "WRONGTYPE ")
}

// fate is what became of the attempts of one call.
type fate struct {
	// lost says that a function was called, or may have been, and did not answer.
	lost atomic.Bool
}

type fateKey struct{}

// hook notes the fate of functions that write where go-redis talks to one server, below all that
// it does on its own.
type hook struct{}

// dialError says that there is no connection, so that nothing was sent.
type dialError struct{ cause error }

func (e *dialError) Error() string { return e.cause.Error() }
func (e *dialError) Unwrap() error { return e.cause }

func (hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, &dialError{err}
		}
		return conn, nil
	}
}

func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		fate, _ := ctx.Value(fateKey{}).(*fate)
		if fate != nil && cmd.Name() == "fcall" && mayHaveRun(err) {
			fate.lost.Store(true)
		}
		return err
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// mayHaveRun reports whether a command with this error may have been run. One that was
// answered with an error has not: the functions check before they write.
func mayHaveRun(err error) bool {
	var dial *dialError
	return err != nil && !isReply(err) && !errors.As(err, &dial) && !errors.Is(err, ErrCertificate) &&
		!errors.Is(err, redis.ErrPoolTimeout) && !errors.Is(err, redis.ErrPoolExhausted) &&
		!errors.Is(err, redis.ErrClosed)
}

// isReply reports whether Redis itself answered with this error.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// transientReplies begin the answers of a Redis that is starting, failing over or
// moving its slots.
var transientReplies = []string{
	"LOADING ", "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "NOREPLICAS ",
	"BUSY ", "MOVED ", "ASK ", "ERR max number of clients",
}

// isTransient reports whether a call may succeed a moment later.
func isTransient(err error) bool {
	if errors.Is(err, redis.ErrClosed) || errors.Is(err, context.Canceled) {
		return false
	}
	if !isReply(err) {
		return true
	}
	for _, prefix := range transientReplies {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}
