package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/redisstore"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port"
)

// Store is what both halves need of one technology.
type Store interface {
	admin.Store
	authz.Feed
	Close() error
}

// Certificates reads the files of certificates that the flags name; nil if they name none.
func Certificates(c Config, log *slog.Logger) (*port.ClientCertificates, error) {
	flag := c.firstTLSFlag()
	switch {
	case flag == "":
		return nil, nil
	case strings.HasPrefix(c.Store, BoltScheme):
		return nil, command.Usage(fmt.Errorf("--%s: a store that is a file has no TLS; it is for rediss:// and its like", flag))
	case c.TLS.Key == "" && c.TLS.Cert != "":
		return nil, command.Usage(errors.New("--store-cert-file: it comes with --store-key-file, the key of the certificate"))
	case c.TLS.Cert == "" && c.TLS.Key != "":
		return nil, command.Usage(errors.New("--store-key-file: it comes with --store-cert-file, the certificate of the key"))
	}
	return port.NewClientCertificates("store", port.ClientFiles{
		CA:   command.FlagValue{Flag: "store-ca-file", Value: c.TLS.CA},
		Cert: command.FlagValue{Flag: "store-cert-file", Value: c.TLS.Cert},
		Key:  command.FlagValue{Flag: "store-key-file", Value: c.TLS.Key},
	}, log)
}

// firstTLSFlag returns the first flag that names a file of certificates; empty if none does.
func (c *Config) firstTLSFlag() string {
	switch {
	case c.TLS.CA != "":
		return "store-ca-file"
	case c.TLS.Cert != "":
		return "store-cert-file"
	case c.TLS.Key != "":
		return "store-key-file"
	}
	return ""
}

// Open opens the store of the configuration, be it there or not. certificates are what
// Certificates returned for it.
//
// It makes no connection: a sidecar starts without its store, by the snapshot file.
func Open(c Config, certificates *port.ClientCertificates) (Store, error) {
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
	s, err := redisstore.Open(c.Store, c.redisOptions(certificates)...)
	switch {
	case errors.Is(err, redisstore.ErrPasswordFile):
		return nil, command.Usage(fmt.Errorf("--store-password-file: %w", err))
	case errors.Is(err, redisstore.ErrNoTLS):
		return nil, command.Usage(fmt.Errorf("--%s: %w", c.firstTLSFlag(), err))
	case err != nil:
		return nil, command.Usage(fmt.Errorf("--store: %w; or bolt:///path for a file", err))
	}
	return s, nil
}

// redisOptions returns what is set of a Redis next to its URL.
func (c *Config) redisOptions(certificates *port.ClientCertificates) (options []redisstore.Option) {
	if c.PasswordFile != "" {
		options = append(options, redisstore.WithPasswordFile(c.PasswordFile))
	}
	if certificates != nil {
		options = append(options, redisstore.WithTLS(certificates.Config))
	}
	if c.Sidecar {
		options = append(options, redisstore.AsSidecar())
	}
	return options
}
