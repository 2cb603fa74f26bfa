package main

import (
	"fmt"
	"strings"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/redisstore"
	"understudy/authz"
)

// store is what both halves need of one technology.
type store interface {
	admin.Store
	authz.Feed
	Close() error
}

// openStore opens the store of the configuration, be it there or not.
func openStore(c storeConfig) (store, error) {
	if path, ok := strings.CutPrefix(c.store, boltScheme); ok {
		s, err := boltstore.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
		return s, nil
	}
	s, err := redisstore.Open(c.store)
	if err != nil {
		return nil, usage(fmt.Errorf("--store: %w; or bolt:///path for a file", err))
	}
	return s, nil
}
