// Package cmd_test holds the import graph of the module.
package cmd_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// graph :: package → the packages of ours that its code may import. Anyone who is not
// in it is refused, and so is an arrow that nobody uses any more. A new arrow is a
// decision: make it here and in ARCHITECTURE.md.
var graph = map[string][]string{
	"cmd/docs":    {}, // the README's recording, and the tests of all documents
	"cmd/testkit": {}, // for tests
	"cmd/understudy": { // main and the wiring of `serve`
		"admin", "admin/access", "admin/audit", "admin/authentication", "admin/authentication/browser", "admin/authentication/oidc", "admin/authentication/revocation", "admin/authentication/tokens", "admin/content", "admin/iam", "admin/policyfile", "admin/policyfile/acl", "admin/policyfile/signature", "admin/rest", "admin/compactor", "admin/dataset", "admin/ui", "authz", "authz/decisionlog", "authz/diagnostics", "authz/extauthz", "authz/extauthz/httpauthz",
		"authz/extservice", "authz/rehearsal", "authz/rehearsal/supervisor", "authz/reservation", "authz/sidecar",
		"authz/rehearsal/child", "authz/rehearsal/process", // the binary is the rehearsal process as well
		"admin/v1", "rego/change", "rego/regotest", // what the API asks the rehearsal process
		"cmd/understudy/author", "cmd/understudy/cli", "cmd/understudy/command", "cmd/understudy/demo", "cmd/understudy/identity", "cmd/understudy/lifecycle",
		"cmd/understudy/port", "cmd/understudy/storage", "cmd/understudy/telemetry", "cmd/understudy/terminal", "cmd/understudy/tokenfile",
	},
	"cmd/understudy/author": {
		"admin/content", "admin/policyfile", "admin/v1", "authz", "rego", "rego/bundle", "rego/regotest", // what they compile, a server compiles in the same way
		"admin/report", "authz/replay", "authz/testgen", // `replay` makes the report that a server would
		"admin/policydiff",   // `diff` shows what the page does
		"cmd/understudy/cli", // `import --apply` is an import and an apply
		"cmd/understudy/command", "cmd/understudy/reportview", "cmd/understudy/resourcefile", "cmd/understudy/terminal",
	},
	"cmd/understudy/cli": {
		"rego/change",                  // what a merged policy does not have of the live one
		"authz",                        // the names of resources, and what OPA's interpreter evaluates
		"authz/background",             // for pauses
		"admin/policyfile", "admin/v1", // the messages of the APIs that it asks
		"admin/content", "admin/dataset", // a document is held to the server's rules before it is sent
		"admin/history",                        // how revisions became live, in the words of the page
		"admin/report", "admin/report/verdict", // requirements are written as the server writes them, and verdicts in its words
		"admin/policydiff",                     // what a promotion changes is shown as the page compares texts
		"admin/access", "admin/authentication", // which roles have the permission that was missing, and who the server takes the caller for
		"cmd/understudy/command", "cmd/understudy/credentials", "cmd/understudy/reportview",
		"cmd/understudy/port", // a file of authorities is read alike on both sides of TLS
		"cmd/understudy/resourcefile", "cmd/understudy/terminal",
	},
	"cmd/understudy/command":     {},
	"cmd/understudy/credentials": {"cmd/understudy/command", "cmd/understudy/port", "cmd/understudy/tokenfile"}, // port for the authorities of an issuer
	"cmd/understudy/demo":        {"admin/report", "cmd/understudy/command", "cmd/understudy/terminal", "deploy/examples"},
	"cmd/understudy/identity": {
		"admin/access", "admin/authentication", "admin/authentication/tokens", "authz", // what they show is the server's; authz for the names of resources
		"cmd/understudy/cli", "cmd/understudy/command", "cmd/understudy/credentials", "cmd/understudy/terminal",
	},
	"cmd/understudy/lifecycle":     {},
	"cmd/understudy/port":          {"admin/access", "authz/diagnostics", "cmd/understudy/command"},                          // admin/access for when a caller is known
	"cmd/understudy/port/certtest": {},                                                                                       // certificates for tests
	"cmd/understudy/reportview":    {"admin/report", "admin/report/verdict", "admin/v1", "authz", "cmd/understudy/terminal"}, // admin/report for numbers as people read them, authz for the names of resources
	"cmd/understudy/resourcefile":  {"admin/content", "cmd/understudy/command"},                                              // content for the numbers that a policy keeps
	"cmd/understudy/scripts":       {},                                                                                       // tests of the binary by scripts
	"cmd/understudy/storage": {
		"admin", "admin/boltstore", "admin/recovery", "admin/redisstore", "authz", "authz/background", "authz/sidecar", // authz/sidecar for the file of the last policies
		"cmd/understudy/command", "cmd/understudy/terminal",
		"cmd/understudy/port", // the files of certificates of both sides of TLS are read alike
	},
	"cmd/understudy/telemetry": {"authz", "cmd/understudy/command", "cmd/understudy/lifecycle", "cmd/understudy/terminal"},
	"cmd/understudy/terminal":  {},
	"cmd/understudy/tokenfile": {"admin/authentication/tokens"}, // who may read a file of tokens

	"admin": {
		"admin/aip", "admin/apierror", "admin/content", "admin/dataset", "admin/report", "admin/v1", "authz", "authz/background", "authz/diagnostics",
		"admin/access",          // who creates what, and whether a promotion may change the next location
		"admin/history",         // who applied what is live
		"admin/audit",           // what only the domain knows of a change
		"rego", "rego/regotest", // for the results of tests
		"rego/change", // in what an experiment differs from its policy, for its report
	},
	"admin/access":  {},
	"admin/history": {"admin/v1", "authz"}, // authz for the names of resources
	"admin/authentication": {
		"admin/access", "admin/apierror", "admin/authentication/oidc", "admin/authentication/revocation", "admin/authentication/tokens",
		"admin/rest", // /whoami is beside the API: the same guard, the same errors
	},
	"admin/authentication/browser":       {"admin/access", "admin/authentication", "admin/authentication/oidc", "admin/rest", "authz/diagnostics"}, // sessions of /ui/
	"admin/authentication/oidc":          {"authz/diagnostics"},
	"admin/authentication/oidc/oidctest": {}, // an issuer for tests, of which nothing is shared with what verifies its tokens
	"admin/authentication/revocation":    {"admin/access", "authz/diagnostics"},
	"admin/authentication/tokens":        {},
	"admin/aip":                          {},
	"admin/audit":                        {"admin/access", "authz/diagnostics"}, // diagnostics for what a text of a record may hold
	"admin/apierror":                     {"admin/aip", "admin/v1"},
	"admin/content":                      {"admin/aip", "admin/apierror", "admin/v1", "authz/background"}, // background for hashes of what is large
	"admin/dataset":                      {"admin/content"},                                               // numbers as policies have them
	"admin/library":                      {"admin", "admin/apierror", "admin/content", "admin/v1", "authz"},
	"admin/recovery":                     {"admin", "admin/v1", "authz"},
	"admin/report": {
		"admin/aip", "admin/content", "admin/v1", "authz/evidence", "authz/evidence/v1",
		"authz",       // how long a node counts as live
		"rego/change", // what an item is
	},
	"admin/report/verdict": {"admin/access", "admin/report", "admin/v1", "authz/diagnostics"},                                                                        // the words of a report, whoever shows it
	"admin/rest":           {"admin/access", "admin/apierror", "admin/audit", "admin/content", "admin/dataset", "admin/v1", "authz/background", "authz/diagnostics"}, // the services are an interface
	"admin/ui": {
		"admin/access", "admin/apierror", "admin/history", "admin/report", "admin/policydiff", "admin/policydiff/linediff", "admin/report/verdict", "admin/v1",
		"admin/rest", // the services as an interface, and what every API on the port checks of a request
		"authz",      // the names of resources, and how long a node counts as live
		"authz/background", "authz/diagnostics",
	},
	"admin/policydiff":          {"admin/policydiff/linediff", "admin/v1"}, // what differs, on the page and for commands
	"admin/policydiff/linediff": {},
	"admin/v1":                  {},
	"admin/boltstore":           {"admin", "admin/v1", "authz"},
	"admin/policyfile": {
		"admin", "admin/access", "admin/aip", "admin/apierror", "admin/audit", "admin/library", "admin/policyfile/acl", "admin/policyfile/signature", "admin/v1", "authz", "authz/diagnostics",
		"admin/rest", // what every API on the port checks of a request
		"rego",       // for the packages of modules
	},
	"admin/policyfile/acl":                     {"admin/access"}, // roles as Chef's lists show them
	"admin/policyfile/signature":               {},
	"admin/policyfile/signature/signaturetest": {},                                                 // signs, for tests
	"admin/redisstore":                         {"admin", "admin/v1", "authz", "authz/background"}, // background for pauses
	"admin/storetest":                          {"admin", "admin/v1", "authz", "cmd/testkit"},      // the contract of both stores; for tests
	"authz":                                    {"admin/v1", "authz/diagnostics", "rego", "rego/change", "rego/explain", "rego/regotest"},
	"authz/background":                         {"authz/diagnostics"}, // a panic in a background thread is raised again where it is waited for
	"authz/cache":                              {"authz", "rego"},
	"authz/decisionlog":                        {"authz", "authz/background", "authz/diagnostics", "rego"}, // rego for the input of a policy's rules
	"authz/diagnostics":                        {},
	"authz/evidence":                           {"admin/v1", "authz", "authz/diagnostics", "authz/evidence/v1", "rego/change"}, // kinds are those of a Report
	"authz/rehearsal/wire/v1":                  {},                                                                             // what crosses for each request
	"authz/sidecar/v1":                         {"admin/v1"},                                                                   // the snapshot file has experiments
	"authz/evidence/v1":                        {},                                                                             // what sidecars count, as the store keeps it
	"authz/extservice":                         {"authz/diagnostics"},
	"authz/rehearsal": {
		"admin/v1", "authz", "authz/background", "authz/diagnostics", "authz/evidence", "authz/evidence/v1", "authz/rehearsal/examine",
		"authz/rehearsal/decisionrequest", "authz/rehearsal/supervisor", "authz/rehearsal/wire",
		"rego/explain", // what the rehearsal process saw
	},
	"authz/rehearsal/examine": {
		"admin/v1", "authz", "authz/evidence", "authz/evidence/v1", "authz/diagnostics", "authz/rehearsal/decisionrequest", "authz/rehearsal/supervisor", "authz/rehearsal/wire", "rego/change", "rego/explain",
	},
	"authz/rehearsal/decisionrequest": {"authz", "authz/cache", "authz/rehearsal/supervisor", "authz/rehearsal/wire", "rego"}, // the input that the rehearsal process is sent
	"authz/rehearsal/verify":          {"authz", "authz/background", "authz/diagnostics", "authz/rehearsal/decisionrequest", "authz/rehearsal/supervisor", "authz/rehearsal/wire"},
	"authz/logreader":                 {}, // files of others, whatever is made of them
	"authz/replay": { // it decides as a sidecar does, and counts as it
		"admin/v1", "authz", "authz/cache", "authz/evidence", "authz/evidence/v1", "authz/extauthz/input", "authz/logreader",
		"rego", "rego/change", "rego/explain",
	},
	"authz/reservation": {"authz", "authz/diagnostics", "rego"},
	"authz/sidecar": { // where the rooms of the data plane meet
		"admin/v1", "authz", "authz/background", "authz/cache", "authz/decisionlog", "authz/diagnostics", "authz/evidence", "authz/evidence/publisher", "authz/extservice",
		"authz/rehearsal", "authz/rehearsal/decisionrequest", "authz/rehearsal/supervisor", "authz/rehearsal/verify",
		"rego",             // to hold an evaluation that lasts long
		"authz/sidecar/v1", // the snapshot file
	},
	"authz/rehearsal/child":                     {"admin/v1", "authz", "authz/background", "authz/cache", "authz/extauthz/body", "authz/extauthz/input", "authz/rehearsal/sandbox", "authz/rehearsal/wire", "rego", "rego/change", "rego/explain", "rego/regotest"}, // it reads the bytes of Envoy's requests; the parent never imports it
	"authz/rehearsal/process":                   {},
	"authz/rehearsal/sandbox":                   {},
	"authz/rehearsal/supervisor":                {"admin/v1", "authz", "authz/background", "authz/rehearsal/process", "authz/rehearsal/wire", "rego/change", "rego/explain", "rego/regotest"},
	"authz/rehearsal/rehearsaltest":             {"admin/v1", "authz", "rego"},                                                                          // for tests
	"authz/rehearsal/supervisor/supervisortest": {"authz/rehearsal/child", "authz/rehearsal/supervisor"},                                                // for tests
	"authz/rehearsal/wire":                      {"authz", "authz/rehearsal/wire/v1", "rego/change", "rego/explain", "rego/regotest"},                   // decisions and traces cross
	"authz/testgen":                             {"admin/v1", "authz", "authz/decisionlog", "authz/logreader", "authz/replay", "rego", "rego/regotest"}, // decisionlog for what a credential is
	"rego/bundle":                               {"rego/compile"},
	"rego/regotest":                             {"rego", "rego/compile"}, // tests are those of a Source
	"rego":                                      {"rego/bounds", "rego/compile", "rego/change", "rego/evaluator", "rego/explain", "rego/opaque"},
	"rego/change":                               {"rego/compile"}, // it reads two policies
	"rego/explain":                              {},
	"rego/bounds":                               {},
	"rego/compile":                              {"rego/bounds"}, // how long a number may be; importing it bounds the built-ins
	"rego/evaluator":                            {"rego/opaque", "rego/tokens"},
	"rego/opaque":                               {},
	"rego/tokens":                               {},
	"deploy/examples":                           {}, // files to embed

	// What a sidecar counts goes to the store, and is kept small there.
	"authz/evidence/publisher": {"authz", "authz/evidence"},
	"admin/compactor":          {"admin", "admin/v1", "authz", "authz/background", "authz/evidence", "authz/evidence/v1"},

	// Who may do what. The services of the API are interfaces to it.
	"admin/iam": {"admin", "admin/access", "admin/apierror", "admin/audit", "admin/v1"},

	// Envoy's requests. A descriptor set becomes a body.Parser.
	"authz/extauthz": {"authz", "authz/diagnostics", "authz/extauthz/body", "authz/extauthz/input"},
	// httpauthz is for other proxies: it makes a CheckRequest and lets the Server decide.
	"authz/extauthz/httpauthz": {
		"authz", "authz/extauthz",
		"authz/extauthz/body", "authz/extauthz/input", // the names of a header and of an extension
	},
	"authz/extauthz/input":      {"authz", "authz/extauthz/body", "rego"},
	"authz/extauthz/body":       {"authz"},                                                                                                                                                                              // memory for a body is asked of authz.Reading
	"authz/extauthz/servertest": {"admin/v1", "authz", "authz/diagnostics", "authz/diagnostics/metrictest", "authz/extauthz", "authz/extauthz/checktest", "authz/rehearsal/supervisor/supervisortest", "authz/sidecar"}, // for tests
	// For tests. It imports nothing of ours, so that its reading of the specification is independent.
	"authz/extauthz/checktest": {},

	"authz/diagnostics/logtest":    {}, // for tests
	"authz/diagnostics/metrictest": {}, // for tests

	// Tests alone.
	"admin/report/table":  {},
	"cmd":                 {},
	"deploy":              {},
	"deploy/forward-auth": {},
	"envoy":               {},
	"envoy/e2e":           {},
}

// doors :: outside technology, by the beginning of its import paths → the only
// packages whose code may import it. Without any, it is for tests.
var doors = map[string][]string{
	"github.com/open-policy-agent/":          {"rego", "rego/bounds", "rego/bundle", "rego/compile", "rego/change", "rego/evaluator", "rego/explain", "rego/opaque", "rego/regotest", "rego/tokens"},
	"github.com/redis/":                      {"admin/redisstore"},
	"go.etcd.io/bbolt":                       {"admin/boltstore"},
	"github.com/spiffe/":                     {"admin/access"},
	"github.com/coreos/go-oidc":              {"admin/authentication/oidc"},
	"github.com/go-jose/":                    {"admin/authentication/oidc"},
	"golang.org/x/oauth2":                    {"admin/authentication/oidc", "cmd/understudy/credentials"},
	"github.com/grpc-ecosystem/grpc-gateway": {"admin/rest", "admin/v1"},
	"github.com/envoyproxy/":                 {"authz/extauthz", "authz/extauthz/checktest", "authz/extauthz/httpauthz", "authz/extauthz/input", "cmd/understudy", "cmd/understudy/cli", "cmd/understudy/demo"},
	"go.opentelemetry.io/otel/sdk":           {"authz/diagnostics/metrictest", "cmd/understudy", "cmd/understudy/telemetry"}, // exporters of records
	"go.opentelemetry.io/otel/exporters":     {"cmd/understudy/telemetry"},
	"go.opentelemetry.io/contrib":            {"cmd/understudy/telemetry"},
	"github.com/spf13/cobra": {
		"cmd/understudy", "cmd/understudy/author", "cmd/understudy/cli", "cmd/understudy/command", "cmd/understudy/demo", "cmd/understudy/identity", "cmd/understudy/storage",
	},
	"github.com/spf13/pflag": {
		"cmd/understudy", "cmd/understudy/author", "cmd/understudy/cli", "cmd/understudy/command", "cmd/understudy/credentials", "cmd/understudy/identity", "cmd/understudy/port",
		"cmd/understudy/storage", "cmd/understudy/telemetry",
	},
	"github.com/prometheus/":                     {"cmd/understudy/author", "cmd/understudy/telemetry"}, // author reads a page of metrics
	"github.com/agnivade/levenshtein":            {"admin/report", "cmd/understudy/command"},            // what a misspelt name may mean
	"github.com/axiomhq/hyperloglog":             {"authz/evidence"},
	"github.com/elastic/go-seccomp-bpf":          {"authz/rehearsal/sandbox"},
	"github.com/google/go-cmp/":                  {"admin/storetest", "authz/extauthz/checktest"},
	"github.com/anishathalye/porcupine":          {"admin/storetest"},
	"github.com/rogpeppe/go-internal/lockedfile": {"cmd/understudy/credentials"},
	"github.com/rogpeppe/go-internal/testscript": {},
	"github.com/rogpeppe/go-internal/txtar":      {},
}

// module is the path of this module.
var module = modulePath()

func modulePath() string {
	content, err := os.ReadFile("../go.mod")
	if err != nil {
		panic(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimPrefix(line, "module ")
}

func TestImports(t *testing.T) {
	problems, err := checkImports(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// checkImports parses the files of a module and returns what breaks the graph. It
// does not ask `go list`, whose answers the test cache would serve after a change.
func checkImports(root fs.FS) (problems []string, err error) {
	used := make(map[string][]string) // :: package → the packages of ours that it imports
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && apart(root, name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		imports, err := importsOf(root, name)
		if err != nil {
			return err
		}
		pkg := path.Dir(name)
		if _, known := graph[pkg]; !known {
			problems = append(problems, fmt.Sprintf("%s: the package %s is not in the import graph: "+
				"a new package is a decision, to be made in this test and in ARCHITECTURE.md", name, pkg))
			return nil
		}
		used[pkg] = append(used[pkg], "") // it is there, even if it imports nothing
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		for _, imported := range imports {
			used[pkg] = append(used[pkg], strings.TrimPrefix(imported, module+"/"))
			problems = append(problems, refuse(name, pkg, imported)...)
		}
		return nil
	})
	return append(problems, unused(used)...), err
}

// apart reports whether a folder is not of this module: it is hidden, has a go.mod
// of its own, or is ignored by the go command.
func apart(root fs.FS, folder string) bool {
	base := path.Base(folder)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(root, path.Join(folder, "go.mod"))
	return err == nil
}

func importsOf(root fs.FS, name string) ([]string, error) {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		imports = append(imports, imported)
	}
	return imports, nil
}

// refuse returns what is wrong with one import.
func refuse(name, pkg, imported string) (problems []string) {
	own, ours := strings.CutPrefix(imported, module+"/")
	if ours && !slices.Contains(graph[pkg], own) {
		problems = append(problems, fmt.Sprintf("%s imports %s: "+
			"a new arrow is a decision, to be made in this test and in ARCHITECTURE.md", name, own))
	}
	for technology, packages := range doors {
		if !strings.HasPrefix(imported, technology) || slices.Contains(packages, pkg) {
			continue
		}
		where := "it is for tests"
		if len(packages) > 0 {
			where = "its only door is " + strings.Join(packages, " and ")
		}
		problems = append(problems, fmt.Sprintf("%s imports %s: %s", name, imported, where))
	}
	return problems
}

// unused returns the packages and arrows of the graph that are not there.
func unused(used map[string][]string) (problems []string) {
	for pkg, allowed := range graph {
		imports, found := used[pkg]
		if !found {
			problems = append(problems, fmt.Sprintf("the package %s of the import graph does not exist: remove it", pkg))
			continue
		}
		for _, own := range allowed {
			if !slices.Contains(imports, own) {
				problems = append(problems, fmt.Sprintf("%s does not import %s any more: remove the arrow", pkg, own))
			}
		}
	}
	return problems
}

// TestImportsAreRefused shows that the check sees what it is for.
func TestImportsAreRefused(t *testing.T) {
	for _, c := range []struct{ name, file, content, want string }{
		{"data plane to control plane", "authz/x.go", `import "` + module + `/admin"`, "authz/x.go imports admin: a new arrow"},
		{"a second door", "admin/x.go", `import "github.com/open-policy-agent/opa/v1/ast"`, "its only door is rego"},
		{"tests alone", "rego/x.go", `import "github.com/rogpeppe/go-internal/txtar"`, "it is for tests"},
		{"unknown package", "admin/util/x.go", ``, "admin/util is not in the import graph"},
		{"unknown package of tests", "admin/util/x_test.go", ``, "admin/util is not in the import graph"},
		{"tests are free", "authz/x_test.go", `import "` + module + `/admin"`, ""},
		{"a module of its own", "cmd/bench/x.go", `import "` + module + `/admin"`, ""},
		{"an allowed arrow", "authz/x.go", `import "` + module + `/rego"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			problems, err := checkImports(fstest.MapFS{
				c.file:             {Data: []byte("package x\n" + c.content + "\n")},
				"cmd/bench/go.mod": {Data: []byte("module bench\n")},
			})
			if err != nil {
				t.Fatal(err)
			}
			// All the rest of the graph is missing here.
			problems = slices.DeleteFunc(problems, func(p string) bool { return strings.Contains(p, ": remove ") })
			got := strings.Join(problems, "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("the problems are %q; want %q", got, c.want)
			}
		})
	}
}
