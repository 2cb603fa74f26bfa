package redisstore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"understudy/authz"
)

// libraryPattern matches the libraries of all versions.
const libraryPattern = "understudy_*"

// scanCount is the number of keys that Redis looks at in one step of a scan.
const scanCount = 1000

// UnusedLibraries returns the libraries of other versions that no node of this database calls, by
// name. It returns none while there is a node that does not report its library, as those of
// earlier versions do not: it may call any of them. It looks at all keys of Redis, so call it
// seldom.
func (s *Store) UnusedLibraries(ctx context.Context) ([]string, error) {
	var unused []string
	err := call(ctx, "looking for libraries that no node calls", func(ctx context.Context) error {
		libraries, err := s.otherLibraries(ctx)
		if err != nil || len(libraries) == 0 {
			return err
		}
		locations, err := s.locationsWithNodes(ctx)
		if err != nil {
			return err
		}
		called, err := s.calledLibraries(ctx, locations)
		if err != nil {
			return err
		}
		if called[""] {
			return nil
		}
		unused = slices.DeleteFunc(libraries, func(name string) bool { return called[name] })
		return nil
	})
	return unused, err
}

// otherLibraries returns the libraries of other versions that a primary has, by name.
func (s *Store) otherLibraries(ctx context.Context) ([]string, error) {
	found, err := s.gather(ctx, func(ctx context.Context, server redis.Cmdable, add func(string)) error {
		libraries, err := server.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: libraryPattern}).Result()
		for _, l := range libraries {
			if l.Name != library.name {
				add(l.Name)
			}
		}
		return err
	})
	return slices.Sorted(maps.Keys(found)), err
}

// locationsWithNodes returns the locations whose nodes report, or have reported lately.
func (s *Store) locationsWithNodes(ctx context.Context) (map[string]bool, error) {
	return s.gather(ctx, func(ctx context.Context, server redis.Cmdable, add func(string)) error {
		scan := server.Scan(ctx, 0, nodesPattern, scanCount).Iterator()
		for scan.Next(ctx) {
			add(locationOf(scan.Val()))
		}
		return scan.Err()
	})
}

// calledLibraries returns what the nodes of some locations report as their libraries; "" if one
// reports none.
func (s *Store) calledLibraries(ctx context.Context, locations map[string]bool) (map[string]bool, error) {
	called := map[string]bool{}
	for location := range locations {
		reports, err := s.Nodes(ctx, authz.Location(location))
		if err != nil {
			return nil, err
		}
		for _, r := range reports {
			called[r.Node.FunctionLibrary] = true
		}
	}
	return called, nil
}

// gather returns what f adds for each primary.
func (s *Store) gather(ctx context.Context, f func(ctx context.Context, server redis.Cmdable, add func(string)) error) (map[string]bool, error) {
	var mu sync.Mutex
	found := map[string]bool{}
	add := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		found[text] = true
	}
	err := s.eachPrimary(ctx, func(ctx context.Context, server redis.Cmdable) error { return f(ctx, server, add) })
	return found, err
}
