package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"understudy/admin/storetest"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port/certtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.Argument {
		os.Exit(child.Main(version)) // a server in this process has started it
	}
	rehearsalOverhead = supervisortest.Overhead()
	testscript.Main(m, map[string]func(){
		"understudy": func() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the scripts in testdata, which read as a manual of the binary.
// Next to the commands of testscript they have:
//
//	await FILE REGEXP      waits until a file has a line that matches
//	addresses FILE         sets $AUTHZ, $HTTP_AUTHZ, $ADMIN and $HEALTH from a server's log
//	revision NUMBER        sets $REVISION to that of a line of the table on the last
//	                       standard output, from 1
//	etag NAME              sets $ETAG to that of the JSON on the last standard output
//	certificates           writes ca.pem, and certificate and key of a server and an envoy that it signed
//	exits CODE COMMAND...  runs a command that ends with this exit code
//	bundle FILE FOLDER     packs a folder as an OPA bundle
func TestScripts(t *testing.T) {
	redis := storetest.Redis(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("NO_COLOR", "1")
			e.Setenv("REDIS", redis)
			e.Setenv("GORACE", os.Getenv("GORACE")) // for how long a program waits at its end, with the race detector
			// A busy machine is no slow policy.
			e.Setenv("UNDERSTUDY_DECISION_TIMEOUT", scriptTime.String())
			deploy, err := filepath.Abs("../../deploy")
			e.Setenv("DEPLOY", deploy)
			e.Setenv("EXAMPLES", filepath.Join(deploy, "examples"))
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await":     await,
			"addresses": addresses,
			"etag":      etag,
			"revision":  revision,
			"certificates": func(ts *testscript.TestScript, _ bool, _ []string) {
				ca := certtest.NewAuthority(ts, ts.MkAbs("."), "ca")
				ca.Server(ts, "server", 1)
				ca.Client(ts, "envoy", time.Hour)
			},
			"bundle": makeBundle,
			"exits":  exits,
		},
	})
}

// scriptTime bounds how long a script waits for a line.
const scriptTime = 30 * time.Second

// readLine returns the first line of a growing file that matches.
func readLine(ts *testscript.TestScript, name, pattern string) string {
	like := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(context.Background(), scriptTime)
	defer cancel()
	for ticker := time.NewTicker(5 * time.Millisecond); ; {
		if f, err := os.Open(ts.MkAbs(name)); err == nil {
			line := matching(f, like)
			_ = f.Close()
			if line != "" {
				ticker.Stop()
				return line
			}
		}
		select {
		case <-ctx.Done():
			content, _ := os.ReadFile(ts.MkAbs(name))
			ts.Fatalf("%s has no line like %s:\n%s", name, pattern, content)
		case <-ticker.C:
		}
	}
}

func matching(r io.Reader, like *regexp.Regexp) string {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if like.MatchString(lines.Text()) {
			return lines.Text()
		}
	}
	return ""
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: await FILE REGEXP")
	}
	readLine(ts, args[0], args[1])
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("%s ended with %v, not %s", strings.Join(args[1:], " "), err, args[0])
	}
}

var address = regexp.MustCompile(`\b(authz|http_authz|admin|health)=(\S+)`)

func addresses(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: addresses FILE")
	}
	line := readLine(ts, args[0], "is listening")
	for _, m := range address.FindAllStringSubmatch(line, -1) {
		ts.Setenv(strings.ToUpper(m[1]), m[2])
	}
}

var etagField = regexp.MustCompile(`(?m)^  "etag": +"(.*)"`)

func etag(ts *testscript.TestScript, _ bool, _ []string) {
	m := etagField.FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("there is no etag in the output")
	}
	ts.Setenv("ETAG", strings.ReplaceAll(m[1], `\"`, `"`))
}

func revision(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(ts.ReadFile("stdout"), "\n")
	n, err := strconv.Atoi(strings.Join(args, " "))
	if err != nil || n < 1 || n >= len(lines) || lines[n] == "" {
		ts.Fatalf("there is no line %v in the table:\n%s", args, strings.Join(lines, "\n"))
	}
	ts.Setenv("REVISION", strings.Fields(lines[n])[0])
}

// TestEveryFlagHasItsVariable holds the help to what it promises.
func TestEveryFlagHasItsVariable(t *testing.T) {
	t.Setenv("UNDERSTUDY_POLICY", "from-the-environment")
	t.Setenv("UNDERSTUDY_LOG_FORMAT", "json")
	cmd := newServe()
	if err := cmd.ParseFlags([]string{"--log-format", "text"}); err != nil {
		t.Fatal(err)
	}
	if err := command.FromEnvironment(cmd.Flags()); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"policy": "from-the-environment", "log-format": "text"} {
		if got := fmt.Sprint(cmd.Flags().Lookup(flag).Value); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
}
