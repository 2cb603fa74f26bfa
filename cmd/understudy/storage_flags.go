package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// boltScheme begins the URL of a store that is a file.
const boltScheme = "bolt://"

// storeConfig is the store that the flags name, the location and the policy that are
// followed in it, and where the last policies are kept for the day on which it is lost.
type storeConfig struct {
	// store is a URL: bolt://, redis:// and the other schemes of redisstore.
	store    string
	location string
	policy   string
	// snapshotFile is empty if there is no folder for it.
	snapshotFile string
}

// bind declares the flags that say what is followed, and what is kept of it.
func (c *storeConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.store, "store", "", "bolt:///path, redis://host:port, rediss://, redis+cluster:// or redis+sentinel:// (default a file in the user's state directory)")
	f.StringVar(&c.location, "location", "projects/default/locations/local", "the set of sidecars that this one belongs to")
	f.StringVar(&c.policy, "policy", "default", "the ID of the policy that decides where a route names none")
	f.StringVar(&c.snapshotFile, "snapshot-file", "", "where the last policies are kept, for a start without the store and for the command restore (default a file beside a bolt store, and one for each Redis in the user's state directory)")
}

var (
	locationName = regexp.MustCompile(`^projects/[a-z]([a-z0-9-]{0,61}[a-z0-9])?/locations/[A-Za-z0-9_.:-]{1,255}$`)
	idPattern    = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}$`)
)

// fillIn sets the defaults that depend on the machine.
func (c *storeConfig) fillIn() error {
	if c.store == "" {
		dir, err := stateDir()
		if err != nil {
			return usage(fmt.Errorf("--store: %w; name a file with bolt:///path", err))
		}
		c.store = boltScheme + filepath.Join(dir, "understudy.db")
	}
	if c.snapshotFile == "" {
		c.snapshotFile = c.defaultSnapshotFile()
	}
	return nil
}

// defaultSnapshotFile is a file of its own for each store, location and policy: what was
// saved of another store is not what this one has lost. It is empty if there is no
// folder for it.
func (c *storeConfig) defaultSnapshotFile() string {
	name := strings.ReplaceAll(c.location, "/", "_") + "." + c.policy
	if path, ok := strings.CutPrefix(c.store, boltScheme); ok {
		return path + "." + name + ".snapshot"
	}
	dir, err := stateDir()
	if err != nil {
		return ""
	}
	of := sha256.Sum256([]byte(redacted(c.store)))
	return filepath.Join(dir, "snapshots", name+"."+hex.EncodeToString(of[:4]))
}

// stateDir is the folder for what a program keeps of its own accord (the XDG base
// directories).
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "understudy"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no home directory to keep the state in")
	}
	return filepath.Join(home, ".local", "state", "understudy"), nil
}

// redacted is a store's URL without what may be secret in it.
func redacted(store string) string {
	u, err := url.Parse(store)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
