package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"understudy/admin/storetest"
	"understudy/cmd/understudy/port/certtest"
)

// exception is a kind of commands that are not run as they stand.
type exception struct {
	like   *regexp.Regexp
	reason string
	check  func(s *session, command string)
}

// notRun are the commands that no test runs as they stand: why, and what is checked
// instead. Each of them is in a document.
var notRun = []exception{
	{like("make test$"), "runs this test", hasTarget},
	{like("make nightly$"), "takes an hour", hasTarget},
	{like("make bench$"), "takes minutes", hasTarget},
	{like("make dashboard$"), "compiles the SDK of Grafana; deploy/dashboard compares what it makes", hasTarget},
	{like(`\.ci/run`), "runs this test", isExecutable},
	{like(`(ENVOY=\S+ )?bin/authzbench (run|envoy|preview|commit|scale)`), "takes minutes", hasFlags},
	{like("go -C cmd/authzbench build"), "compiles all anew in a copy of the repository", buildsFromHere},
	{like("(taskset -c 0 )?opa run"), "needs opa-envoy-plugin, which is not ours to install", namesFiles},
	{like("helm upgrade"), "needs a cluster; deploy/check reads the file with Istio's own types", namesFiles},
	{like("kubectl (create|apply|rollout)"), "needs a cluster; deploy/check reads the files with Kubernetes' own types", namesFiles},
	{like(`docker compose (-f \S+ )*(up|logs)`), "needs Docker; deploy/check reads the file with compose's own types", namesFiles},
	{like("curl http://localhost:10000/"), "needs the Envoy of compose; envoy/e2e asks through a real one", isPublished},
	{like("curl '?http://(victorialogs|loki|clickhouse):"), "needs that backend, with records in it; the document says what was run against what", namesQuery},
	{like("envoy -c"), "needs an Envoy; envoy/e2e runs the file with one", namesFiles},
}

func like(pattern string) *regexp.Regexp { return regexp.MustCompile(`^` + pattern) }

func exceptionFor(command string) *exception {
	i := slices.IndexFunc(notRun, func(e exception) bool { return e.like.MatchString(command) })
	if i < 0 {
		return nil
	}
	return &notRun[i]
}

// TestExceptionsAreNeeded: an exception that no document has would hide a command that
// is written later.
func TestExceptionsAreNeeded(t *testing.T) {
	used := map[string]bool{}
	commands := map[string]bool{}
	for _, d := range documents(t) {
		for _, b := range d.blocks() {
			if b.language != "sh" && b.language != "console" {
				continue
			}
			for _, step := range b.steps() {
				commands[step.command] = true
				if e := exceptionFor(step.command); e != nil {
					used[e.like.String()] = true
				}
			}
		}
	}
	for _, e := range notRun {
		if !used[e.like.String()] {
			t.Errorf("no document has a command like %s, which %s", e.like, e.reason)
		}
	}
	for command := range beforehand {
		if !commands[command] {
			t.Errorf("no document has the command %s", command)
		}
	}
}

// hasTarget: the Makefile knows what the command makes.
func hasTarget(s *session, command string) {
	s.Helper()
	s.mustRun("make -n " + strings.TrimPrefix(command, "make ") + " >/dev/null")
}

// isExecutable: the command is a file of the repository that can be run.
func isExecutable(s *session, command string) {
	s.Helper()
	s.mustRun("test -x " + command)
}

// buildsFromHere builds the same from the repository itself, of which the most is built.
func buildsFromHere(s *session, command string) {
	s.Helper()
	module, err := filepath.Abs(filepath.Join(repository, "cmd/authzbench"))
	if err != nil {
		s.Fatal(err)
	}
	command = strings.Replace(command, "-C cmd/authzbench", "-C '"+module+"'", 1)
	s.mustRun(strings.Replace(command, "-o ../..", "-o '"+s.folder+"'", 1))
}

// isPublished: compose publishes the port that the command asks.
func isPublished(s *session, command string) {
	s.Helper()
	port := regexp.MustCompile(`localhost:(\d+)`).FindStringSubmatch(command)[1]
	s.mustRun("grep -q '127.0.0.1:" + port + ":" + port + "' docker-compose.yml")
}

var flags = regexp.MustCompile(`\s--([a-z][a-z-]+)`)

// hasFlags: the help of the command names each flag.
func hasFlags(s *session, command string) {
	s.Helper()
	s.mustRun("test -x bin/authzbench && test -x .ci/envoy")
	words := strings.Fields(command)
	at := slices.Index(words, "bin/authzbench")
	help := strings.Join(s.mustRun(strings.Join(words[at:at+2], " ")+" --help 2>&1"), "\n")
	for _, m := range flags.FindAllStringSubmatch(command, -1) {
		if !regexp.MustCompile(`--?` + m[1] + `\b`).MatchString(help) {
			s.Errorf("%s has no flag --%s:\n%s", strings.Join(words[at:at+2], " "), m[1], help)
		}
	}
}

var fileArgument = regexp.MustCompile(`[^\s=]+/[^\s=]+\.(?:yaml|rego)\b`)

// namesFiles: each file that the command names is there, and is YAML if it says so.
func namesFiles(s *session, command string) {
	s.Helper()
	for _, name := range fileArgument.FindAllString(command, -1) {
		content, err := os.ReadFile(filepath.Join(s.folder, name))
		if err != nil {
			s.Errorf("%s: %v", command, err)
			continue
		}
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for d := yaml.NewDecoder(bytes.NewReader(content)); ; {
			var value any
			if err := d.Decode(&value); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				s.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

var queryArgument = regexp.MustCompile(`@(\S+)$`)

// namesQuery: the file with the query is there.
func namesQuery(s *session, command string) {
	s.Helper()
	m := queryArgument.FindStringSubmatch(command)
	if m == nil {
		s.Errorf("%s names no query", command)
		return
	}
	s.mustRun("test -s " + m[1])
}

// prepared is what a reader of a document has done before, or has from elsewhere.
var prepared = map[string]func(*session){
	"rego/README.md":                 givePolicy,
	"envoy/observe.md":               func(s *session) { givePolicy(s); giveAccessLog(s) },
	"deploy/tls.md":                  func(s *session) { giveCertificates(s); s.addresses["0.0.0.0:9191"] = "127.0.0.1:0" },
	"deploy/authentication.md":       giveCertificates,
	"deploy/permissions.md":          giveCertificates,
	"admin/requirements.md":          after("admin/README.md"),
	"admin/location-requirements.md": after("admin/README.md"),
	"admin/stages.md":                after("admin/README.md", "admin/requirements.md"),
	"admin/datasets.md":              after("admin/README.md"),
}

// after is for a document that goes on where others end: it follows these.
func after(paths ...string) func(*session) {
	return func(s *session) {
		s.Helper()
		all := documents(s.T)
		for _, path := range paths {
			i := slices.IndexFunc(all, func(d document) bool { return d.path == path })
			if i < 0 {
				s.Fatalf("there is no document %s", path)
			}
			for _, b := range all[i].blocks() {
				s.follow(b)
			}
		}
	}
}

// giveCertificates makes an authority with a certificate for servers and one for Envoy.
func giveCertificates(s *session) {
	s.Helper()
	ca := certtest.NewAuthority(s, s.folder, "ca")
	s.mustRun("mv ca.pem ca.crt")
	ca.Issue(s, "tls", 1, time.Hour, x509.ExtKeyUsageServerAuth)
	ca.Issue(s, "envoy", 2, time.Hour, x509.ExtKeyUsageClientAuth)
}

// givePolicy makes a policy for OPA, as a folder and as a bundle.
func givePolicy(s *session) {
	s.Helper()
	s.mustRun(`mkdir -p policy && cp deploy/examples/shop.rego deploy/examples/shop_test.rego policy/ && echo '{"permissions": {"customer": {"api/orders": ["GET"]}, "support": {"api/refunds": ["POST"]}}}' >policy/data.json
		tar -czf bundle.tar.gz -C policy .`)
}

// giveAccessLog makes lines as observe.yaml has Envoy write them: two of them differ.
func giveAccessLog(s *session) {
	s.Helper()
	s.mustRun(`printf '{"decisions":"%s"}\n' 'ALLOW via_upstream' 'ALLOW ext_authz_denied' 'DENY ext_authz_denied' 'DENY via_upstream' >access.log`)
}

// beforehand is what happens to a reader before he needs a command.
var beforehand = map[string]func(*session){
	"bin/understudy check --addr https://sidecar:9191 --ca-cert ca.crt --client-cert envoy.crt --client-key envoy.key": func(s *session) {
		s.mustRun("understudy apply default -f deploy/examples/allow.yaml")
	},
	"understudy serve --store rediss://redis:6379 --store-ca-file redis-ca.crt --store-cert-file understudy.crt --store-key-file understudy.key": giveRedisTLS,
	"understudy restore --validate-only": func(s *session) {
		redis := storetest.StartRedis(s)
		s.mustRun("export UNDERSTUDY_STORE=" + redis.URL())
		s.serve("understudy serve")
		s.mustRun("understudy apply shop -f deploy/examples/policy.yaml")
		loseData(s, redis)
	},
	"understudy restore --empty": func(s *session) {
		redis := storetest.StartRedis(s)
		s.mustRun("export UNDERSTUDY_STORE=" + redis.URL())
		s.serve("understudy serve")
		s.mustRun("understudy apply shop -f deploy/examples/policy.yaml")
		loseData(s, redis)
	},
}

// giveRedisTLS starts a Redis that asks for client certificates, and makes the files of a client.
func giveRedisTLS(s *session) {
	s.Helper()
	ca := certtest.NewAuthority(s, s.folder, "redis-ca")
	s.mustRun("mv redis-ca.pem redis-ca.crt")
	server := ca.Issue(s, "redis", 1, time.Hour, x509.ExtKeyUsageServerAuth)
	client := ca.Issue(s, "understudy", 2, time.Hour, x509.ExtKeyUsageClientAuth)
	redis := storetest.StartRedisTLS(s, storetest.RedisTLS{
		CA: filepath.Join(s.folder, "redis-ca.crt"), Cert: server.Cert, Key: server.Key, ClientCert: client.Cert, ClientKey: client.Key,
	})
	s.addresses["redis:6379"] = redis.TLSAddress()
}

// loseData empties a Redis, and waits until the sidecar has seen it.
func loseData(s *session, redis *storetest.RedisServer) {
	s.Helper()
	network, address := redis.Address()
	conn, err := net.Dial(network, address)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer := make([]byte, 5)
	if _, err = io.WriteString(conn, "FLUSHALL\r\n"); err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if err != nil || string(answer) != "+OK\r\n" {
		s.Fatalf("FLUSHALL answers %q, %v", answer, err)
	}
	s.await(s.log(), "level=ERROR")
}

// TestBlocks: no command of a document escapes, as a block that nobody runs or as one
// that is indented.
func TestBlocks(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^ *(\$ )?((bin/)?understudy|curl|make|go|kubectl|docker|helm|istioctl|envoy) `)
	for _, d := range documents(t) {
		for _, b := range d.blocks() {
			if m := commands.FindString(b.text); m != "" && b.language != "sh" && b.language != "console" {
				t.Errorf("%s:%d: a block of %s has the command %q: it is sh or console", d.path, b.line, b.language, m)
			}
		}
		inside, before := false, ""
		for i, line := range strings.Split(d.text, "\n") {
			if fence.MatchString(line) {
				inside = !inside
			}
			if !inside && before == "" && strings.HasPrefix(line, "    ") {
				t.Errorf("%s:%d: a block is fenced, not indented", d.path, i+1)
			}
			before = line
		}
		if inside {
			t.Errorf("%s: a block does not end", d.path)
		}
	}
}
