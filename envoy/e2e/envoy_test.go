//go:build realenvoy

package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"understudy/cmd/testkit"
)

// envoy is a running Envoy.
type envoy struct {
	*process
	admin string
	// at :: name of a listener → its address.
	at map[string]string
}

// newEnvoy runs Envoy until the test ends.
func newEnvoy(t *testing.T, c *config) *envoy {
	t.Helper()
	file, admin := c.write(t), filepath.Join(t.TempDir(), "admin")
	e := &envoy{at: make(map[string]string), process: start(t, "envoy", nil, envoyProgram, "-c", file, "--use-dynamic-base-id",
		"--concurrency", "1", "--disable-hot-restart", "--admin-address-path", admin,
		// The access log would be written every ten seconds.
		"--file-flush-interval-msec", "20", "--log-level", "info", "--log-format", "%l %v")}
	if _, ok := e.log.find(0, "starting workers", e.ended); !ok {
		t.Fatalf("Envoy did not start:\n%s", e.log.tail())
	}
	address, err := os.ReadFile(admin)
	if err != nil {
		t.Fatal(err)
	}
	e.admin = string(address)
	var listening struct {
		Statuses []struct {
			Name    string
			Address struct {
				Socket struct {
					Address string
					Port    json.Number `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(get(t, "http://"+e.admin+"/listeners?format=json")), &listening); err != nil {
		t.Fatal(err)
	}
	for _, l := range listening.Statuses {
		e.at[l.Name] = l.Address.Socket.Address + ":" + l.Address.Socket.Port.String()
	}
	return e
}

// write writes a configuration to a file, as the JSON that YAML is a superset of.
func (c *config) write(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(c.tree)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// validate has Envoy judge a configuration without running it.
func validate(t *testing.T, c *config) {
	t.Helper()
	out, err := testkit.CombinedOutput(exec.Command(envoyProgram, "--mode", "validate", "-c", c.write(t), "--log-level", "warn"))
	if err != nil {
		t.Errorf("Envoy refuses the file: %v\n%s", err, out)
	}
	if text := string(out); strings.Contains(text, "[warning]") || strings.Contains(text, "deprecated") {
		t.Errorf("Envoy warns of the file:\n%s", text)
	}
}

// stat returns a counter or gauge of Envoy's, with the labels that Prometheus gets.
func (e *envoy) stat(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	return sumOf(t, get(t, "http://"+e.admin+"/stats/prometheus?usedonly"), name, labels)
}

// line waits for the line of the access log that has a text, from a place on.
func (e *envoy) line(t *testing.T, from int, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(e.out.await(t, from, text)), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}
