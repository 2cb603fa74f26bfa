package storetest

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The users of deploy/redis/users.conf, and the passwords that StartRedisWithUsers gives
// them.
const (
	ControlUser      = "understudy"
	ControlPassword  = "control-password"
	OperatorUser     = "understudy-operator"
	OperatorPassword = "operator-password"
	SidecarUser      = "understudy-sidecar"
	SidecarPassword  = "sidecar-password"
)

// shippedLocation is what the keys of the location of the shipped SidecarUser begin with.
const shippedLocation = "{default}/local/"

// RedisUsers returns the content of a file such as deploy/redis/users.conf with passwords.
// Each of some locations, such as {p1}/dev, has its own SidecarUser, with a dash and the ID
// of the location behind the name. Without locations there is one SidecarUser for all, since
// tests have locations of their own.
func RedisUsers(t testing.TB, file string, locations ...string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "user "+SidecarUser+" ") {
			out.WriteString(line)
			continue
		}
		if len(locations) == 0 {
			out.WriteString(strings.ReplaceAll(line, shippedLocation, "{*}/*/"))
		}
		for _, location := range locations {
			own := strings.ReplaceAll(line, shippedLocation, location+"/")
			out.WriteString(strings.Replace(own, SidecarUser, SidecarUserOf(location), 1))
		}
	}
	return strings.NewReplacer("CONTROL_PASSWORD", ControlPassword, "OPERATOR_PASSWORD", OperatorPassword,
		"SIDECAR_PASSWORD", SidecarPassword).Replace(out.String())
}

// SidecarUserOf is the name of the user of a location, such as {p1}/dev.
func SidecarUserOf(location string) string {
	return SidecarUser + "-" + location[strings.LastIndexByte(location, '/')+1:]
}

// StartRedisWithUsers starts a private redis-server on a unix socket, with the users of a
// file such as deploy/redis/users.conf, as RedisUsers has them, and no other.
func StartRedisWithUsers(t testing.TB, file string, locations ...string) *RedisServer {
	t.Helper()
	config := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(config, []byte(RedisUsers(t, file, locations...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartRedis(t, "--include", config)
}

// URLOf is what redisstore.Open takes for a user with a password.
func (r *RedisServer) URLOf(user *url.Userinfo) string {
	scheme, rest, _ := strings.Cut(r.URL(), "://")
	return scheme + "://" + user.String() + "@" + rest
}
