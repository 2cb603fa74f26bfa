//go:build realenvoy

package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sidecar is a running Understudy, which can be started again.
type sidecar struct {
	*process
	name      string
	arguments []string
	variables []string // of its environment
	// listening is what it has bound.
	listening addresses
}

// addresses are what the first line of a sidecar's log names.
type addresses struct {
	Authz     string `json:"authz"`
	HTTPAuthz string `json:"http_authz"`
	Admin     string `json:"admin"`
	Health    string `json:"health"`
}

// newSidecar runs Understudy with a port of its own for ext_authz and a new store, both
// unless the arguments have others, until it is ready.
func newSidecar(t *testing.T, arguments ...string) *sidecar {
	t.Helper()
	s := prepareSidecar(t, arguments...)
	s.begin(t)
	s.ready(t)
	return s
}

// prepareSidecar does not start it yet.
func prepareSidecar(t *testing.T, arguments ...string) *sidecar {
	t.Helper()
	state := t.TempDir()
	s := &sidecar{name: "understudy", arguments: append([]string{
		"serve", "--authz-addr", fixedAddress(t), "--admin-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0",
		"--store", "bolt://" + filepath.Join(state, "store.db"), "--snapshot-file", filepath.Join(state, "snapshot"),
		"--policy", "web", "--log-format", "json",
		// A machine that is busy with other tests is no policy that is too slow.
		"--decision-timeout", "30s",
	}, arguments...)}
	s.listening.Authz = s.flag("--authz-addr")
	return s
}

// flag returns the last value of a flag.
func (s *sidecar) flag(name string) (value string) {
	for i, a := range s.arguments {
		if a == name {
			value = s.arguments[i+1]
		}
	}
	return value
}

// begin starts it, again if it has ended, and waits until its first ports are open.
func (s *sidecar) begin(t *testing.T) {
	t.Helper()
	s.process = start(t, s.name, s.variables, understudyProgram, s.arguments...)
	if err := json.Unmarshal([]byte(s.log.await(t, 0, "understudy is listening")), &s.listening); err != nil {
		t.Fatal(err)
	}
}

// ready waits until it has loaded its location.
func (s *sidecar) ready(t *testing.T) {
	t.Helper()
	s.log.await(t, 0, `"msg":"ready"`)
}

// apply makes a policy of a file of Rego, and waits until it is applied. More fields of
// the policy may follow, as JSON.
func (s *sidecar) apply(t *testing.T, id, file string, more ...string) {
	t.Helper()
	fields := append([]string{rego(t, file)}, more...)
	s.create(t, "policies?policyId="+id, "{"+strings.Join(fields, ",")+"}")
}

// rego is the fields of a policy that is a file of Rego, as JSON.
func rego(t *testing.T, file string) string {
	t.Helper()
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(module))
	if err != nil {
		t.Fatal(err)
	}
	return `"rules":[{"rego":{}}],"modules":{"policy.rego":` + string(text) + `}`
}

// rehearse starts an experiment of a file of Rego.
func (s *sidecar) rehearse(t *testing.T, id, file string) {
	t.Helper()
	name := "projects/default/locations/local/policies/" + id
	s.create(t, "policies/"+id+"/experiments?policyExperimentId=e", `{"policy":{"name":"`+name+`",`+rego(t, file)+`}}`)
	s.create(t, "policies/"+id+"/experiments/e:startPreview", "{}")
}

// create makes a POST below the location, and waits until every sidecar has applied it.
func (s *sidecar) create(t *testing.T, path, body string) {
	t.Helper()
	url := "http://" + s.listening.Admin + "/v1/projects/default/locations/local/"
	response, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var operation struct {
		Name string
		Done bool
	}
	if err := json.Unmarshal(answer, &operation); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, response.StatusCode, answer)
	}
	if !operation.Done {
		_, id, _ := strings.Cut(operation.Name, "/operations/")
		s.create(t, "operations/"+id+":wait", `{"timeout":"60s"}`)
	}
}

// metric returns the sum of the series of a counter whose labels have all the texts.
func (s *sidecar) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	return sumOf(t, get(t, "http://"+s.listening.Health+"/metrics"), name, labels)
}
