package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"understudy/cmd/testkit"
)

// longestCommand is how long one command may take: it may build a program.
const longestCommand = 10 * time.Minute

// session is a reader who follows a document in a shell, in a copy of the repository.
type session struct {
	*testing.T
	folder string // the copy of the repository
	own    string // a folder of this session, for what the reader does not see
	input  io.Writer
	output *bufio.Scanner
	values values
	end    func() // ends the shell and all that it has started
	// serving is the number of servers that were started; the last one runs.
	serving int
	// addresses :: an address as documents have it → that of the server that runs.
	addresses map[string]string
}

// prelude is what the shell knows beforehand. Its curl fails unless the status is the
// expected one.
const prelude = `
set -u
export PATH="$PWD/bin:$PATH" HOME="$OWN" XDG_STATE_HOME="$OWN/state" NO_COLOR=1
export UNDERSTUDY_DECISION_TIMEOUT=30s UNDERSTUDY_PREVIEW_TIMEOUT=30s # a busy machine is no slow policy
curl() {
  local status
  status=$(command curl -sS -o "$OWN/body" -w '%{http_code}' "$@") || return
  cat "$OWN/body"
  case $status in $STATUS) ;; *) echo "the status is $status, not $STATUS" >&2; return 22 ;; esac
}
`

func newSession(t *testing.T, folder string) *session {
	t.Helper()
	s := &session{T: t, folder: folder, own: t.TempDir(), values: values{}, addresses: map[string]string{}}
	shell := exec.Command("bash", "--noprofile", "--norc")
	shell.Dir = folder
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that all that it starts can be ended
	for _, variable := range os.Environ() {
		// The reader has no settings of the person who runs the tests.
		if !strings.HasPrefix(variable, "UNDERSTUDY_") && !strings.HasPrefix(variable, "OTEL_") {
			shell.Env = append(shell.Env, variable)
		}
	}
	shell.Env = append(shell.Env, "OWN="+s.own, "GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false")
	output, err := shell.StdoutPipe()
	if err == nil {
		s.input, err = shell.StdinPipe()
	}
	if err == nil {
		err = shell.Start() // endWithTests ends it, with all that it has started
	}
	if err != nil {
		t.Fatalf("starting bash: %v", err)
	}
	release := endWithTests(t, shell.Process.Pid)
	s.output = bufio.NewScanner(output)
	s.output.Buffer(nil, 1<<24)
	s.end = func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	t.Cleanup(func() {
		release()
		s.end()
		_ = shell.Wait()
	})
	s.mustRun(goPaths() + prelude)
	return s
}

// endWithTests has a process group killed when this process is gone, however it ends: a watcher
// waits until its standard input is closed. Killing the shell alone would leave its background
// processes behind. The caller calls release before it reaps the shell, after which the system
// may give the number of the group to others.
func endWithTests(t *testing.T, group int) (release func()) {
	t.Helper()
	watcher := exec.Command("sh", "-c", `read -r _; kill -s KILL -- "-$1"`, "sh", strconv.Itoa(group))
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C does not end it first
	_, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		t.Fatalf("starting the watcher of the shell: %v", err)
	}
	return func() {
		_ = watcher.Process.Kill()
		_ = watcher.Wait()
	}
}

// moveApart goes on in a folder of the session's own that has the repository as links, so
// that files which the commands write are in no other session's way.
func (s *session) moveApart() {
	s.Helper()
	s.mustRun(`mkdir "$OWN/apart" && ln -s "$PWD"/* "$PWD"/.[a-z]* "$OWN/apart/" && cd "$OWN/apart"`)
	s.folder = filepath.Join(s.own, "apart")
}

// goPaths keeps what was built and downloaded where it is, though HOME is another one.
func goPaths() string {
	var b strings.Builder
	for _, name := range []string{"GOENV", "GOCACHE", "GOMODCACHE", "GOPATH"} {
		fmt.Fprintf(&b, "export %s=$(go env %s)\n", name, name)
	}
	return b.String()
}

// endOfStep is printed after each step, with its exit code.
const endOfStep = "\x1eend of step "

// run runs commands in the shell and returns what they printed.
func (s *session) run(commands string) (stdout []string, stderr string, code int) {
	s.Helper()
	script := filepath.Join(s.own, "step")
	if err := os.WriteFile(script, []byte(commands+"\n"), 0o600); err != nil {
		s.Fatal(err)
	}
	watch := time.AfterFunc(longestCommand, s.end)
	defer watch.Stop()
	fmt.Fprintf(s.input, "STATUS='%s'; . '%s' </dev/null 2>'%s.err'; printf '\\n%s%%d\\n' $?\n", "2??", script, script, endOfStep)
	for s.output.Scan() {
		if text, found := strings.CutPrefix(s.output.Text(), endOfStep); found {
			code, _ = strconv.Atoi(text)
			content, _ := os.ReadFile(script + ".err")
			return trimEnd(stdout), string(content), code
		}
		stdout = append(stdout, s.output.Text())
	}
	content, _ := os.ReadFile(script + ".err")
	s.Fatalf("the shell has ended, or was ended after %v, at %s\n%s", longestCommand, commands, content)
	return nil, "", 0
}

// trimEnd takes empty lines off the end.
func trimEnd(lines []string) []string {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func (s *session) mustRun(commands string) []string {
	s.Helper()
	stdout, stderr, code := s.run(commands)
	if code != 0 {
		s.Fatalf("%s\nended with %d:\n%s%s", commands, code, strings.Join(stdout, "\n"), stderr)
	}
	return stdout
}

var listening = regexp.MustCompile(`\b(authz|http_authz|admin|health|reservation)=(127\S+)`)

// serve starts a server, in place of the one that runs, and learns its addresses.
func (s *session) serve(command string) {
	s.Helper()
	s.stop()
	s.serving++
	log := s.log()
	for name := range defaultPorts {
		if name == "reservation" && !strings.Contains(command, "--reservation-policy") {
			continue
		}
		command = "UNDERSTUDY_" + strings.ToUpper(name) + "_ADDR=127.0.0.1:0 " + command
	}
	s.mustRun(fmt.Sprintf("%s >'%s.out' 2>'%s' </dev/null & server=$!", command, log, log))
	for _, m := range listening.FindAllStringSubmatch(s.await(log, "is listening"), -1) {
		s.addresses["localhost:"+defaultPorts[m[1]]] = m[2]
		s.addresses["127.0.0.1:"+defaultPorts[m[1]]] = m[2]
		s.addresses["sidecar:"+defaultPorts[m[1]]] = m[2]
		if m[1] != "http_authz" {
			s.mustRun("export UNDERSTUDY_" + strings.ToUpper(m[1]) + "_ADDR=" + m[2])
		}
	}
	s.await(log, "msg=ready")
}

// defaultPorts :: what listens → its port unless a flag says otherwise.
var defaultPorts = map[string]string{"authz": "9191", "admin": "8181", "health": "8282", "reservation": "9192"}

// log is the path of what the running server logs; with .out of what it prints.
func (s *session) log() string { return filepath.Join(s.own, fmt.Sprintf("server%d", s.serving)) }

// stop ends the server that runs, if one does.
func (s *session) stop() {
	if s.serving > 0 {
		_, _ = fmt.Fprintln(s.input, `kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; true`)
	}
}

// await returns the first line of a growing file that contains a text.
func (s *session) await(file, text string) (found string) {
	s.Helper()
	var content []byte
	testkit.Await(s, fmt.Sprintf("%s says %q", file, text), func() bool {
		content, _ = os.ReadFile(file)
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				found = line
				return true
			}
		}
		return false
	}, func() any { return string(content) })
	return found
}

// adapt returns a command as it is run here: with the addresses of the server that
// runs, and with what was printed here in place of what the document shows.
func (s *session) adapt(command string) string {
	for shown, real := range s.addresses {
		command = strings.ReplaceAll(command, shown, real)
	}
	for shown, real := range maps.All(s.values) {
		command = strings.ReplaceAll(command, shown, real)
	}
	return command
}

// values :: what a document shows of what another run makes anew, such as an etag → what
// was printed instead.
type values map[string]string

// varying are the parts of an output that are others in each run.
var varying = regexp.MustCompile(`W/\\?"[0-9a-f]{8,}\\?"` +
	`|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}` +
	`|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?` +
	`|\d\d:\d\d:\d\d\.\d{3}` +
	`|127\.0\.0\.1:\d+` +
	`|\b\d+ ms\b` +
	`|\([0-9a-f]{12}\)` + // the beginning of an etag in a report
	`|, for [0-9]+[0-9dhms.]*\b`)

// same reports whether two lines say the same, and keeps what varies between them.
func (v values) same(shown, got string) bool {
	before, now := varying.FindAllString(shown, -1), varying.FindAllString(got, -1)
	if plain(shown) != plain(got) {
		return false
	}
	for i := range before {
		v[before[i]] = now[i]
	}
	return true
}

// plain is a line without what varies.
func plain(line string) string {
	return strings.TrimRight(varying.ReplaceAllString(line, "…"), " ")
}
