package storetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The users of deploy/redis/users.conf, and the passwords that StartRedisWithUsers gives
// them.
const (
	ControlUser     = "understudy"
	ControlPassword = "control-password"
	SidecarUser     = "understudy-sidecar"
	SidecarPassword = "sidecar-password"
)

// RedisUsers returns the content of a file such as deploy/redis/users.conf with passwords.
func RedisUsers(t testing.TB, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("CONTROL_PASSWORD", ControlPassword, "SIDECAR_PASSWORD", SidecarPassword).Replace(string(content))
}

// StartRedisWithUsers starts a private redis-server on a unix socket, with the users of a
// file such as deploy/redis/users.conf and no other.
func StartRedisWithUsers(t testing.TB, file string, arguments ...string) *RedisServer {
	t.Helper()
	config := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(config, []byte(RedisUsers(t, file)), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartRedis(t, append([]string{"--include", config}, arguments...)...)
}

// URLOf is what redisstore.Open takes for a user.
func (r *RedisServer) URLOf(user, password string) string {
	scheme, rest, _ := strings.Cut(r.URL(), "://")
	return scheme + "://" + user + ":" + password + "@" + rest
}
