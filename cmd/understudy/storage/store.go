package storage

import (
	"errors"
	"fmt"
	"strings"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/redisstore"
	"understudy/authz"
	"understudy/cmd/understudy/command"
)

// Store is what both halves need of one technology.
type Store interface {
	admin.Store
	authz.Feed
	Close() error
}

// Open opens the store of the configuration, be it there or not.
//
// It makes no connection: a sidecar starts without its store, by the snapshot file.
func Open(c Config) (Store, error) {
	if path, ok := strings.CutPrefix(c.Store, BoltScheme); ok {
		if c.PasswordFile != "" {
			return nil, command.Usage(errors.New("--store-password-file: a store that is a file has no password; it is for redis:// and its like"))
		}
		s, err := boltstore.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
		return s, nil
	}
	var options []redisstore.Option
	if c.PasswordFile != "" {
		options = append(options, redisstore.WithPasswordFile(c.PasswordFile))
	}
	if c.Sidecar {
		options = append(options, redisstore.AsSidecar())
	}
	s, err := redisstore.Open(c.Store, options...)
	switch {
	case errors.Is(err, redisstore.ErrPasswordFile):
		return nil, command.Usage(fmt.Errorf("--store-password-file: %w", err))
	case err != nil:
		return nil, command.Usage(fmt.Errorf("--store: %w; or bolt:///path for a file", err))
	}
	return s, nil
}
