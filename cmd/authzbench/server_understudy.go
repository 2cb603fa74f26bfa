package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// benchLocation and benchPolicy are the only location and live policy of a
	// measurement; the policy is the sidecar's own (--policy), so that no route has to
	// name it.
	benchLocation = "projects/bench/locations/local"
	benchPolicy   = "bench"
)

// understudy is a binary of it, the name in the report, and variables for its
// environment. With several binaries, versions are compared in the same run.
type understudy struct {
	name, binary string
	environment  []string
}

// withFailureStatus is the same server, which answers a request that it could not decide with
// an error in place of a denial, so that it is counted.
func (u understudy) withFailureStatus() understudy {
	u.environment = append([]string{"UNDERSTUDY_FAIL_WITH_ERROR=true"}, u.environment...)
	return u
}

// buildUnderstudy builds the binary of the tree around this module into a folder, with
// the flags of a release, so that what is measured is what is shipped.
func buildUnderstudy(ctx context.Context, folder string) (string, error) {
	root, err := treeRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(folder, "understudy")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
		"-o", binary, "./cmd/understudy")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building understudy: %w\n%s", err, output)
	}
	return binary, nil
}

// treeRoot finds the tree of understudy from a folder inside of it.
func treeRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "cmd", "understudy", "main.go")); err == nil {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", errors.New("finding the source of understudy: run this in its tree, or give --understudy BINARY")
		}
	}
}

// node is a running understudy and the addresses that it reported.
type node struct {
	*process
	authz, admin, health string
}

// start starts the server with a store of its own below folder, unless the arguments
// name one (the last of two equal flags wins), and waits until it listens. All ports
// are chosen by the system and read from its log line "understudy is listening".
func (u understudy) start(ctx context.Context, cpus cpuList, folder string, arguments ...string) (*node, error) {
	folder, err := os.MkdirTemp(folder, u.name+"-")
	if err != nil {
		return nil, err
	}
	arguments = append([]string{
		"serve", "--store", "bolt://" + filepath.Join(folder, "store.db"), "--location", benchLocation, "--policy", benchPolicy,
		"--authz-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0",
		"--log-format", "json", "--snapshot-file", filepath.Join(folder, "snapshot"),
	}, arguments...)
	cmd := exec.Command(u.binary, arguments...)
	cmd.Env = append(os.Environ(), u.environment...)
	bound := make(chan *node, 1)
	p, err := startProcess(u.name, cpus, cmd, func(line string) {
		var event struct{ Msg, Authz, Admin, Health string }
		if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "understudy is listening" {
			bound <- &node{authz: event.Authz, admin: event.Admin, health: event.Health}
		}
	})
	if err != nil {
		return nil, err
	}
	n, err := await(ctx, p, bound)
	if err != nil {
		p.stop()
		return nil, err
	}
	n.process = p
	return n, nil
}

// policyBody is a policy as the REST API takes it: one Rego rule with the default path.
func policyBody(modules map[string]string, data map[string]any) map[string]any {
	return map[string]any{
		"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": modules, "data": data,
	}
}

// putPolicy makes or replaces the policy of all requests, and returns when it is
// enforced.
func (n *node) putPolicy(ctx context.Context, p policySpec) error {
	const mutation = "policies/" + benchPolicy + "?allowMissing=true&updateMask=rules,modules,data"
	return n.mutate(ctx, http.MethodPatch, mutation, policyBody(p.modules(), p.Data))
}

// startExperiment makes an experiment and begins its preview (AIP-236): from then on it
// is ACTIVE, and decides in shadow what the live policy decides.
func (n *node) startExperiment(ctx context.Context, id string, p policySpec) error {
	policy := policyBody(p.modules(), p.Data)
	policy["name"] = benchLocation + "/policies/" + benchPolicy
	experiments := "policies/" + benchPolicy + "/experiments"
	if err := n.mutate(ctx, http.MethodPost, experiments+"?policyExperimentId="+id, map[string]any{"policy": policy}); err != nil {
		return err
	}
	return n.mutate(ctx, http.MethodPost, experiments+"/"+id+":startPreview", map[string]any{})
}

// startExperiments makes and starts a number of them, each with one rule changed.
func (n *node) startExperiments(ctx context.Context, p policySpec, count int) error {
	for i := range count {
		candidate, err := p.candidate(i + 1)
		if err != nil {
			return err
		}
		if err := n.startExperiment(ctx, fmt.Sprintf("e%02d", i+1), candidate); err != nil {
			return fmt.Errorf("starting experiment %d: %w", i+1, err)
		}
	}
	return nil
}

// mutate makes a change by the REST API and waits until it is applied. Every change is
// a long-running operation (AIP-151) that is done when all live sidecars enforce it. A
// wait may end before that, so it is asked again.
func (n *node) mutate(ctx context.Context, method, path string, body any) error {
	var operation struct {
		Name  string
		Done  bool
		Error *struct{ Message string }
	}
	if err := n.call(ctx, method, benchLocation+"/"+path, body, &operation); err != nil {
		return err
	}
	for !operation.Done {
		if err := n.call(ctx, http.MethodPost, operation.Name+":wait", map[string]any{}, &operation); err != nil {
			return err
		}
	}
	if operation.Error != nil {
		return fmt.Errorf("%s %s: %s", method, path, operation.Error.Message)
	}
	return nil
}

// call makes one request of the REST API. A status other than 200 is an *apiError,
// which has the API's own message. answer is a pointer for the decoded body.
func (n *node) call(ctx context.Context, method, path string, body, answer any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+n.admin+"/v1/"+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return newAPIError(method+" "+path, response.StatusCode, received)
	}
	return json.Unmarshal(received, answer)
}

// apiError is a refusal by the API.
type apiError struct {
	call    string
	status  int
	message string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s answered %d: %s", e.call, e.status, e.message)
}

// newAPIError takes the message of an error body (AIP-193), or the beginning of a body
// that is none.
func newAPIError(call string, status int, body []byte) *apiError {
	var answer struct{ Error struct{ Message string } }
	if json.Unmarshal(body, &answer) != nil || answer.Error.Message == "" {
		answer.Error.Message = fmt.Sprintf("%.500s", body)
	}
	return &apiError{call, status, answer.Error.Message}
}
