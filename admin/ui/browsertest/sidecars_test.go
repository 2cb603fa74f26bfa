package browsertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"understudy/cmd/testkit"
)

// tokens :: who → its token. The first is an owner, the other may read.
var tokens = map[string]string{"olga": uuid.NewString(), "vera": uuid.NewString()}

// mesh is two sidecars on one Redis. Their admin ports know callers by tokens.
type mesh struct {
	binary  string
	folder  string
	redis   string
	admin   []string // addresses of the admin ports
	authz   []string // and of those that Envoy asks
	started []*exec.Cmd
}

// startMesh starts Redis and two sidecars, which end with the test.
func startMesh(t *testing.T) *mesh {
	t.Helper()
	m := &mesh{binary: os.Getenv("UNDERSTUDY"), folder: t.TempDir(), redis: testkit.FreeAddress()}
	if m.binary == "" {
		t.Fatal("UNDERSTUDY names no binary to test: run make test-browser")
	}
	_, port, err := net.SplitHostPort(m.redis)
	if err != nil {
		t.Fatal(err)
	}
	m.start(t, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", m.folder)
	m.writeTokens(t)
	for i := range 2 {
		admin, authz := testkit.FreeAddress(), testkit.FreeAddress()
		m.admin, m.authz = append(m.admin, admin), append(m.authz, authz)
		m.start(t, m.binary, "serve", "--store", "redis://"+m.redis, "--policy", "shop", "--node", fmt.Sprintf("sidecar-%d", i+1),
			"--admin-addr", admin, "--authz-addr", authz, "--health-addr", testkit.FreeAddress(), "--decision-timeout", "30s",
			"--admin-token-file", filepath.Join(m.folder, "tokens"), "--admin-owner", "token:olga",
			"--snapshot-file", filepath.Join(m.folder, fmt.Sprint("snapshot-", i)))
		testkit.Await(t, "the admin port of a sidecar answers", func() bool {
			answer, err := http.Get("http://" + admin + "/openapi.json") //nolint:noctx // it is asked until it answers
			if err != nil {
				return false
			}
			return answer.Body.Close() == nil
		})
	}
	return m
}

// writeTokens writes the file of the tokens that the sidecars take, and one for each user.
func (m *mesh) writeTokens(t *testing.T) {
	t.Helper()
	var lines strings.Builder
	for name, token := range tokens {
		sum := sha256.Sum256([]byte(token))
		fmt.Fprintln(&lines, name, hex.EncodeToString(sum[:]))
		write(t, m.tokenFile(name), token)
	}
	write(t, filepath.Join(m.folder, "tokens"), lines.String())
}

func (m *mesh) tokenFile(name string) string { return filepath.Join(m.folder, name+".token") }

// start starts a program that ends with the test, or with the test binary if that is killed.
func (m *mesh) start(t *testing.T, name string, args ...string) {
	t.Helper()
	log := &lockedBuffer{}
	cmd := exec.Command(name, args...) // programs of this test, which end in Cleanup
	cmd.Stdout, cmd.Stderr = log, log
	if err := testkit.Start(cmd); err != nil {
		t.Fatal(err)
	}
	m.started = append(m.started, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, log)
		}
	})
}

// run runs a command of understudy as olga, which succeeds.
func (m *mesh) run(t *testing.T, args ...string) {
	t.Helper()
	args = append(args, "--admin", m.admin[0], "--token-file", m.tokenFile("olga"))
	cmd := exec.CommandContext(t.Context(), m.binary, args...) // the binary under test
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+m.folder)
	if out, err := testkit.CombinedOutput(cmd); err != nil {
		t.Fatalf("understudy %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// call asks the API as olga, and decodes the answer.
func (m *mesh) call(t *testing.T, method, path string, body any, out any) {
	t.Helper()
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.admin[0]+path, bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tokens["olga"])
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text := &bytes.Buffer{}
	if _, err := text.ReadFrom(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s is answered with %d: %s, %v", method, path, answer.StatusCode, text, err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(text.Bytes(), out); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
