package redisstore

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// What has to happen at one instant is a function of Redis: Lua in a file next to its caller.
// All files make one library, whose name has the hash of its code, so that the libraries of
// two versions live next to each other while servers and sidecars are upgraded. Servers of the
// admin API load it on every primary; anyone who has the user of a sidecar calls what is there,
// and runs no code of his own.

//go:embed *.lua
var sources embed.FS

// commonSource is the file that comes first: what all functions use.
const commonSource = "library.lua"

// library has the functions of this version.
var library = newLibrary()

// functionLibrary is a library of Redis.
type functionLibrary struct{ name, code string }

// newLibrary puts the files together. Each is a block, so that none sees the names of another.
func newLibrary() functionLibrary {
	common := mustRead(commonSource)
	var functions strings.Builder
	files, err := sources.ReadDir(".")
	if err != nil {
		panic(err) // what is embedded can be read
	}
	for _, file := range files {
		if file.Name() != commonSource {
			fmt.Fprintf(&functions, "do\n%send\n", mustRead(file.Name()))
		}
	}
	code := common + functions.String()
	hash := sha256.Sum256([]byte(code))
	name := "understudy_" + hex.EncodeToString(hash[:6])
	return functionLibrary{name, fmt.Sprintf("#!lua name=%s\nlocal library = '%s'\n%s", name, name, code)}
}

func mustRead(name string) string {
	source, err := sources.ReadFile(name)
	if err != nil {
		panic(err) // what is embedded can be read
	}
	return string(source)
}

// function is one of the library.
type function struct {
	// name is that of its file, which says what its keys and arguments are.
	name string
	// readOnly says that it writes nothing: then a user needs no right to write its keys.
	readOnly bool
}

// run calls a function. Where Redis does not have it, a server loads the library before.
func (s *Store) run(ctx context.Context, client redis.UniversalClient, f function, keys []string, args ...any) *redis.Cmd {
	cmd := f.run(ctx, client, keys, args)
	if s.sidecar || !isNoFunction(cmd.Err()) {
		return cmd
	}
	if err := s.loadWhereMissing(ctx); err != nil {
		cmd.SetErr(err)
		return cmd
	}
	return f.run(ctx, client, keys, args)
}

func (f function) run(ctx context.Context, client redis.UniversalClient, keys []string, args []any) *redis.Cmd {
	name := library.name + "_" + f.name
	if f.readOnly {
		return client.FCallRO(ctx, name, keys, args...)
	}
	return client.FCall(ctx, name, keys, args...)
}

// Library is the name of the library with the functions of this version.
func (s *Store) Library() string { return library.name }

// LoadFunctions loads the functions of this version on every primary that does not have
// them. A primary may come without, or lose them: call it again now and then. It changes
// nothing of other versions. The error wraps ErrRefused if the user of Redis may not do
// that, and ErrTooOld if Redis has no functions.
func (s *Store) LoadFunctions(ctx context.Context) error {
	return call(ctx, "loading the functions", s.loadWhereMissing)
}

func (s *Store) loadWhereMissing(ctx context.Context) error { return s.eachPrimary(ctx, library.load) }

// eachPrimary calls f for each primary, for those of a cluster at once: a replica gets functions
// from its primary, but a cluster passes them on to no other one.
func (s *Store) eachPrimary(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	if cluster, ok := s.short.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return f(ctx, node) })
	}
	return f(ctx, s.short)
}

// load loads the library if the server does not have it: a load is a write, which goes to
// its replicas and to its disk.
func (l functionLibrary) load(ctx context.Context, server redis.Cmdable) error {
	found, err := server.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: l.name}).Result()
	if err != nil || len(found) > 0 {
		return err
	}
	// Another server may have done so meanwhile; its code is the same.
	return server.FunctionLoadReplace(ctx, l.code).Err()
}

// ErrNoFunctions says that a sidecar waits for the functions of its version.
var ErrNoFunctions = errors.New("Redis does not have the functions of this version yet (the library " + library.name + "): " +
	"a server of the admin API (--enable admin) of the same version loads them; until one has, this is tried again")

// isNoFunction reports whether Redis does not have a function.
func isNoFunction(err error) bool {
	return err != nil && isReply(err) && strings.HasPrefix(err.Error(), "ERR Function not found")
}

// ErrTooOld says that Redis has no functions at all.
var ErrTooOld = errors.New("this server has no functions; the store needs Redis 7.0 or later, or Valkey")

// isTooOld reports whether Redis knows no command for functions.
func isTooOld(err error) bool {
	return err != nil && isReply(err) && strings.HasPrefix(err.Error(), "ERR unknown command")
}
