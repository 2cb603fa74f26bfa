package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/cmd/testkit"
)

// applyBindings runs `iam apply` on a terminal, does something when it asks, and answers.
func (o operator) applyBindings(file, answer string, meanwhile func()) (code int, stdout, stderr string) {
	o.t.Helper()
	keyboard, tty := openTerminal(o.t)
	read, write := io.Pipe()
	ended := make(chan int, 1)
	var out strings.Builder
	go func() {
		ended <- run(context.WithoutCancel(o.t.Context()), []string{"iam", "apply", "-f", file, "--admin", o.r.bound["admin"], "--location", location}, tty, &out, write)
		_ = write.Close()
	}()
	var said strings.Builder
	for in := bufio.NewReader(read); ; {
		char, _, err := in.ReadRune()
		if err != nil {
			return testkit.Receive(o.t, "the command to end", ended), out.String(), said.String()
		}
		said.WriteRune(char)
		if strings.HasSuffix(said.String(), "[y/N] ") {
			meanwhile()
			if _, err := keyboard.WriteString(answer + "\n"); err != nil {
				o.t.Fatal(err)
			}
		}
	}
}

// TestBindingsThatChangeWhileOneIsAsked: what somebody else has granted meanwhile was not shown,
// and is not taken away.
func TestBindingsThatChangeWhileOneIsAsked(t *testing.T) {
	t.Parallel()
	o := operator{t, startServer(t, nil)}
	o.do("apply", "web", "-f", "../../deploy/examples/allow.yaml")
	file := filepath.Join(t.TempDir(), "iam.yaml")
	content := location + ":\n  viewer: [token:a]\n" + location + "/policies/web:\n  viewer: [token:b]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	get := func(args ...string) string {
		_, out, _ := runCommand(t, append(append([]string{"iam", "get", "-o", "json"}, args...), "--admin", o.r.bound["admin"], "--location", location)...)
		return out
	}
	nothing := func() {}
	if code, _, stderr := o.applyBindings(file, "n", nothing); code != 1 || !strings.Contains(stderr, "nothing was changed") || strings.Contains(get()+get("web"), "token:") {
		t.Errorf("no: %d\n%s\n%s%s", code, stderr, get(), get("web"))
	}
	code, stdout, stderr := o.applyBindings(file, "y", func() { o.do("iam", "grant", "token:emergency", "editor") })
	if code != 1 || !strings.Contains(stderr, "the bindings of "+location+" were changed by somebody else meanwhile, and stay so") ||
		!strings.Contains(stderr, location+"/policies/web was changed before that") || strings.Contains(stdout, "emergency") {
		t.Errorf("meanwhile: %d\n%s%s", code, stdout, stderr)
	}
	if !strings.Contains(get(), "token:emergency") || strings.Contains(get(), "token:a") || !strings.Contains(get("web"), "token:b") {
		t.Errorf("the bindings are %s%s", get(), get("web"))
	}
	code, stdout, _ = o.applyBindings(file, "y", nothing)
	if code != 0 || !strings.Contains(stdout, "- editor is taken from token:emergency") || strings.Contains(get(), "token:emergency") || !strings.Contains(get(), "token:a") {
		t.Errorf("again: %d\n%s%s", code, stdout, get())
	}
}
