// Package scripts_test runs the binary by the scripts in testdata, which read as a manual of its
// commands.
package scripts_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
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
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port/certtest"
)

// repository is the root of the repository, from this package.
const repository = "../../.."

// program is the binary under test. Scripts have its path in the variable $PROGRAM.
var program string

func TestMain(m *testing.M) {
	testscript.Main(builder{m}, map[string]func(){
		// A script has started this test binary under the name of the program. A server that runs in
		// the background then ends with the test binary that runs the script.
		"understudy": func() {
			err := testkit.Exec(os.Getenv("PROGRAM"), os.Args, os.Environ())
			fmt.Fprintln(os.Stderr, "executing understudy:", err)
			os.Exit(125)
		},
	})
}

// builder builds the binary before it runs the tests.
type builder struct{ *testing.M }

// Run returns the exit code.
func (b builder) Run() int {
	dir, err := os.MkdirTemp("", "understudy-scripts")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "understudy")
	arguments := []string{"build", "-ldflags=-s -w", "-o", program}
	if testkit.Race {
		arguments = append(arguments, "-race")
	}
	if out, err := testkit.CombinedOutput(exec.Command("go", append(arguments, "understudy/cmd/understudy")...)); err != nil {
		fmt.Fprintf(os.Stderr, "building understudy: %v\n%s", err, out)
		return 1
	}
	return b.M.Run()
}

// TestScripts runs the scripts. In addition to the commands of testscript they have:
//
//	await FILE REGEXP      waits until a file has a line that matches
//	addresses FILE         sets $AUTHZ, $HTTP_AUTHZ, $ADMIN and $HEALTH from a server's log
//	revision NUMBER        sets $REVISION to the revision in a line of the table on the last
//	                       standard output, from 1
//	etag NAME              sets $ETAG to the etag in the JSON on the last standard output
//	certificates           writes ca.pem, and certificate and key of a server and an envoy that it signed
//	exits CODE COMMAND...  runs a command that ends with this exit code
//	bundle FILE FOLDER     packs a folder as an OPA bundle
func TestScripts(t *testing.T) {
	readFolders(t)
	redis := storetest.Redis(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PROGRAM", program)
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("NO_COLOR", "1")
			e.Setenv("REDIS", redis)
			e.Setenv("GORACE", os.Getenv("GORACE")) // how long a program built with the race detector waits at its end
			// A busy machine is no slow policy, and reaches no time limit of a server.
			for _, limit := range []string{"DECISION", "PREVIEW", "SHUTDOWN"} {
				e.Setenv("UNDERSTUDY_"+limit+"_TIMEOUT", testkit.Patience.String())
			}
			deploy, err := filepath.Abs(filepath.Join(repository, "deploy"))
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

// readFolders reads all folders of the repository. `go test` caches a result until something
// changes that the test has imported or read, and this test does not import the binary.
func readFolders(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != repository && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitLine returns the first line of a growing file that matches.
func awaitLine(ts *testscript.TestScript, name, pattern string) (line string) {
	like := regexp.MustCompile(pattern)
	testkit.Await(ts, fmt.Sprintf("%s has a line like %s", name, pattern), func() bool {
		line = firstMatch(ts.MkAbs(name), like)
		return line != ""
	}, func() any {
		content, _ := os.ReadFile(ts.MkAbs(name))
		return string(content)
	})
	return line
}

// firstMatch returns the first line of a file that matches, or nothing.
func firstMatch(file string, like *regexp.Regexp) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
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
	awaitLine(ts, args[0], args[1])
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
	line := awaitLine(ts, args[0], "is listening")
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
