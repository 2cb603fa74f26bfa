// Package storage is the store that the flags name: where it is, opening it, whether it
// takes this process and keeps what it gets, and the command that restores what it lost.
//
// A store is a file (bolt), which belongs to one process, or a Redis, which any number of
// sidecars share. Opening a Redis makes no connection yet: a sidecar starts without its
// store and decides by the snapshot file, which has the last policies that it followed.
// The name of that file is made from store, location, policy and --policies, so that restore finds the
// file of a server by the same flags.
package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"understudy/cmd/understudy/command"
)

// BoltScheme begins the URL of a store that is a file.
const BoltScheme = "bolt://"

// Config is the store that the flags name, the location and the policy that are
// followed in it, and where the last policies are kept for the day on which it is lost.
type Config struct {
	// Store is a URL: bolt://, redis:// and the other schemes of redisstore.
	Store string
	// PasswordFile has the password of the user of Redis; empty if the URL has it, or there
	// is none.
	PasswordFile string
	// TLS are the PEM files of connections to Redis.
	TLS TLSFiles
	// Sidecar says that the process serves no admin API, which is no flag: it changes no
	// policy, and loads no functions into Redis.
	Sidecar bool
	// Location is the resource name of the set of sidecars that share policies.
	Location string
	// Policy is the ID of the policy that decides where a route names none. The name of the
	// snapshot file has it, since sidecars with another one keep other policies.
	Policy string
	// Policies are those that a sidecar follows: IDs, and beginnings of IDs with a * behind. Empty
	// means all.
	Policies []string
	// SnapshotFile is empty if there is no folder for it.
	SnapshotFile string
}

// TLSFiles are the PEM files of connections to Redis, to its Sentinels and to all nodes of a
// Cluster. Each may be empty.
type TLSFiles struct {
	// CA has the authorities of the certificate of Redis.
	CA string
	// Cert has the client certificate that Redis is shown, and Key its key.
	Cert, Key string
}

// Bind declares the flags that say what is followed, and what is kept of it.
func (c *Config) Bind(f *pflag.FlagSet) {
	f.StringVar(&c.Store, "store", "", "bolt:///path, redis://host:port, rediss://, redis+cluster:// or redis+sentinel://host:port,host:port/NAME[/DATABASE] (default a file in the user's state directory)")
	f.StringVar(&c.PasswordFile, "store-password-file", "", "a file with the password of the user that a Redis URL names, read for each new connection; in --store everybody on the machine can read a password")
	f.StringVar(&c.TLS.CA, "store-ca-file", "", "for rediss://, a PEM file with the authorities of the certificate of Redis, of its Sentinels and of all nodes of a Cluster; read again for each new connection (default the system's authorities)")
	f.StringVar(&c.TLS.Cert, "store-cert-file", "", "for rediss://, a PEM file with the certificate to show to Redis (mTLS), the chain behind it; read again for each new connection")
	f.StringVar(&c.TLS.Key, "store-key-file", "", "its key, as PEM without a password")
	f.StringVar(&c.Location, "location", "projects/default/locations/local", "the set of sidecars that this one belongs to")
	f.StringVar(&c.Policy, "policy", "default", "the ID of the policy that decides where a route names none")
	f.StringSliceVar(&c.Policies, "policies", nil, "the policies that decide here, with a comma between them, such as shop,team-*; other ones take no memory, and a request that names one is denied (default all of the location)")
	f.StringVar(&c.SnapshotFile, "snapshot-file", "", "where the last policies are kept, for a start without the store and for the command restore (default a file next to a bolt store, and one for each Redis in the user's state directory)")
}

var (
	// LocationPattern is the grammar of a location's name, as the API has it: what passes
	// here can be created there.
	LocationPattern = regexp.MustCompile(`^projects/[a-z]([a-z0-9-]{0,61}[a-z0-9])?/locations/[A-Za-z0-9_.:-]{1,255}$`)
	// IDPattern is that of the ID of a policy or a sidecar.
	IDPattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}$`)
	// SelectionPattern is that of an element of --policies.
	SelectionPattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}\*?$`)
)

// FillIn sets the defaults that depend on the machine.
//
// Without flags a server works, and keeps what it stores: in the user's state directory.
func (c *Config) FillIn() error {
	if c.Store == "" {
		dir, err := stateDir()
		if err != nil {
			return command.Usage(fmt.Errorf("--store: %w; name a file with bolt:///path", err))
		}
		c.Store = BoltScheme + filepath.Join(dir, "understudy.db")
	}
	if path, ok := strings.CutPrefix(c.Store, BoltScheme); ok && strings.Contains(strings.SplitN(path, "/", 2)[0], "@") {
		return command.Usage(errors.New("--store: bolt:// is a file, which has no user and no password: write bolt:///path"))
	}
	if path, ok := strings.CutPrefix(c.Store, BoltScheme); ok && !filepath.IsAbs(path) {
		return command.Usage(fmt.Errorf("--store: bolt:// takes an absolute path, and %q is none: write bolt:///path", path))
	}
	if c.SnapshotFile == "" {
		c.SnapshotFile = c.DefaultSnapshotFile()
	}
	return nil
}

// DefaultSnapshotFile is a file of its own for each store, location, policy and selection of
// policies: what was saved of another one is not what this one has lost. It is empty if there is no
// folder for it.
func (c *Config) DefaultSnapshotFile() string {
	name := c.locationInNames() + c.Policy
	if len(c.Policies) > 0 {
		selected := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(c.Policies)), ",")))
		name += "." + hex.EncodeToString(selected[:4])
	}
	if path, ok := strings.CutPrefix(c.Store, BoltScheme); ok {
		return path + "." + name + ".snapshot"
	}
	dir, err := stateDir()
	if err != nil {
		return ""
	}
	of := sha256.Sum256([]byte(Redacted(c.Store)))
	return filepath.Join(dir, "snapshots", name+"."+hex.EncodeToString(of[:4]))
}

// locationInNames is what the names of the snapshot files of the location have in common.
func (c *Config) locationInNames() string { return strings.ReplaceAll(c.Location, "/", "_") + "." }

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

// WarnOfPassword warns of a password that is on the command line, which other users of the
// machine read. It is called before variables are read, for those are not.
func WarnOfPassword(f *pflag.FlagSet, warn func(string)) {
	store := f.Lookup("store")
	if store == nil || !store.Changed {
		return
	}
	u, err := url.Parse(store.Value.String())
	if err != nil {
		return
	}
	_, has := u.User.Password()
	query := u.Query()
	if has || query.Has("password") || query.Has("sentinel_password") {
		warn("--store has a password, which others on this machine can read in the list of processes; " +
			"--store-password-file and the variable UNDERSTUDY_STORE show it to no other user")
	}
}

// Redacted is a store's URL without what may be secret in it.
//
// User and password stand before the host, and further secrets may be in the query.
func Redacted(store string) string {
	u, err := url.Parse(store)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
