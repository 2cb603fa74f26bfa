package redisstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
)

// writePassword writes a file with a password and returns its path.
func writePassword(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The password file is read for each new connection, so that a password changes without a
// restart. While it cannot be read, nothing is sent.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	owner := client(t, server)
	send := func(command ...any) {
		t.Helper()
		if err := owner.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	send("ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all")
	_, socket := server.Address()
	file := writePassword(t, "first\n")
	store := open(t, "unix://app@"+socket, redisstore.WithPasswordFile(file))
	if _, err := store.Commit(t.Context(), put("first")); err != nil {
		t.Fatal(err)
	}

	send("ACL", "SETUSER", "app", "resetpass", ">second")
	send("CLIENT", "KILL", "USER", "app")
	if _, err := store.Get(t.Context(), web); !errors.Is(err, redisstore.ErrRefused) || strings.Contains(err.Error(), "first") {
		t.Errorf("with the old password: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), put("gone")); !errors.Is(err, admin.ErrUnavailable) || errors.Is(err, admin.ErrOutcomeUnknown) ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if records, err := store.Get(t.Context(), web); err != nil || records[0].Key != web {
		t.Errorf("with the new password: %+v, %v", records, err)
	}
}

// The file is the password of Redis in each form of the URL, and never that of a Sentinel.
func TestPasswordFileOfEachForm(t *testing.T) {
	t.Parallel()
	protected := []string{"--requirepass", "right", "--masterauth", "right"}
	file := redisstore.WithPasswordFile(writePassword(t, "right\r\n"))
	primary := storetest.StartRedisTCP(t, protected...)
	sentinel := storetest.StartSentinel(t, primary, "sentinel auth-pass main right")
	cluster := startCluster(t)
	for _, node := range primaries(t, clusterClient(t, cluster)) {
		if err := node.ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for form, url := range map[string]string{
		"single":   "redis://127.0.0.1:" + primary.Port(),
		"sentinel": "redis+sentinel://127.0.0.1:" + sentinel.Port() + "?master_name=main",
		"cluster":  cluster,
	} {
		store := open(t, url, file)
		eventually(t, form+" answers", func() error {
			_, err := store.Get(t.Context(), web)
			return err
		})
	}
}

func TestWrongPasswordFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "blank": " \n", "two lines": password + "\n" + password, "long": strings.Repeat(password, 1000),
	} {
		store, err := redisstore.Open("redis://app@127.0.0.1", redisstore.WithPasswordFile(writePassword(t, content)))
		if err == nil {
			t.Errorf("%s: it was opened", name)
			store.Close()
		} else if strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "on one line") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for url, option := range map[string]redisstore.Option{
		"redis://app@127.0.0.1":                  redisstore.WithPasswordFile("/nonexistent/password"),
		"redis://app:" + password + "@127.0.0.1": redisstore.WithPasswordFile(writePassword(t, "right")),
	} {
		store, err := redisstore.Open(url, option)
		if err == nil {
			t.Errorf("%s was opened", url)
			store.Close()
		} else if strings.Contains(err.Error(), password) {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

// FuzzPasswordFile looks for files that panic or whose error contains what is in them.
func FuzzPasswordFile(f *testing.F) {
	for _, content := range []string{"right\n", "", "\r\n", password + "\n" + password, strings.Repeat("x", 5000), "\x00"} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		store, err := redisstore.Open("redis://app@127.0.0.1", redisstore.WithPasswordFile(writePassword(t, content)))
		if err == nil {
			store.Close()
		} else if secret := strings.TrimSpace(content); len(secret) > 100 && strings.Contains(err.Error(), secret) {
			t.Errorf("the error contains the password: %v", err)
		}
	})
}
