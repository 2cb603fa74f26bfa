package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"understudy/admin/access"
	"understudy/cmd/testkit"
)

// row is one requirement being proven on one store.
type row struct {
	*testing.T
	id     string
	script *script
	// line is that of the statement under way.
	line int

	store *openStore
	clock *clock
	// servers :: name → a server on the store. The first one is s1.
	servers map[string]*httptest.Server
	via     string
	// member is who sends the calls; empty if nobody is authenticated.
	member string
	// owner owns everything on servers that check permissions; empty if none does.
	owner string

	variables map[string]any
	// header is that of the next call.
	header map[string]string
	answer *apiResponse
	// document is what checks look at: the answer, or what OP, error or record
	// made of it.
	document any
	// operation is the operation that the last OP waited for.
	operation any

	nodes    map[string]*node
	receiver *receiver
	// logs is what servers and sidecars log.
	logs *logBuffer
	// counted :: experiment ID → the number of records that LOGS last saw.
	counted map[string]int
}

// goRow is a row that is written in Go.
type goRow func(r *row)

// rows :: ID → what the statement go runs.
var rows = map[string]goRow{}

func newRow(t *testing.T, id string, s *script, b backend) *row {
	r := &row{
		T: t, id: id, script: s, via: "s1",
		clock:     &clock{},
		servers:   map[string]*httptest.Server{},
		variables: map[string]any{},
		header:    map[string]string{},
		nodes:     map[string]*node{},
		logs:      &logBuffer{},
		counted:   map[string]int{},
	}
	r.store = b.open(t, "p-"+strings.ToLower(id), r.clock)
	location := "projects/" + r.store.project + "/locations/l1"
	policy := location + "/policies/web"
	experiment := policy + "/experiments/e1"
	for name, value := range map[string]string{"p": "projects/" + r.store.project, "l": location, "pol": policy, "exp": experiment} {
		r.variables[name] = value
		r.variables[strings.ToUpper(name)] = "/v1/" + value
	}
	r.servers["s1"] = r.serve(r.store)
	return r
}

// serve starts a server on a store.
func (r *row) serve(store *openStore) *httptest.Server {
	listening := httptest.NewUnstartedServer(authenticated(r.edge(store)))
	listening.Config.Protocols = restAndGRPC()
	listening.Start()
	r.Cleanup(listening.Close)
	return listening
}

// memberHeader is who sends a request of a row: an authenticator would find out.
const memberHeader = "Test-Member"

// authenticated puts who sends a request into its context.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := access.Principal{Member: r.Header.Get(memberHeader), Method: access.MethodToken}
		next.ServeHTTP(w, r.WithContext(access.NewContext(r.Context(), p)))
	})
}

// baseFixture is what the table takes for granted, in its own language.
var baseFixture = map[string]string{
	"policy": `
POST $L/policies?policyId=web {"displayName":"web","rules":RULES_A}
OP Policy`,
	"experiment": `
POST $POL/experiments?policyExperimentId=e1 {"policy":{"name":"$pol","rules":RULES_B}}
OP PolicyExperiment`,
}

// run proves the row.
func (r *row) run() {
	statements := r.script.statements
	fixture := "all"
	if len(statements) > 0 && statements[0].word == "fixture" {
		fixture, statements = statements[0].rest, statements[1:]
	}
	if fixture != "none" {
		r.do(baseFixture["policy"])
	}
	if fixture == "all" {
		r.do(baseFixture["experiment"])
	}
	if len(statements) == 0 {
		r.Fatal("the row proves nothing")
	}
	r.execute(statements)
	r.expectSuccess()
	r.finishNodes()
	r.checkLogs()
}

// do runs statements that a Go row or a fixture gives as text.
func (r *row) do(text string) {
	r.Helper()
	statements, err := parseStatements(text)
	if err != nil {
		r.Fatal(err)
	}
	line := r.line
	r.execute(statements)
	r.expectSuccess()
	r.line = line
}

func (r *row) execute(statements []statement) {
	r.Helper()
	for _, s := range statements {
		r.line = s.line
		if s.word == "for" {
			r.loop(s)
			continue
		}
		if name, rest := s.word, s.rest; strings.HasPrefix(rest, "= ") {
			r.capture(name, strings.TrimSpace(rest[1:]))
			continue
		}
		run, ok := words[s.word]
		if !ok {
			r.fatalf("unknown statement %q", s.word)
		}
		run(r, s.rest)
	}
}

// words are the statements of the language, in addition to for and captures.
var words map[string]func(r *row, rest string)

func init() {
	words = map[string]func(*row, string){
		"error": (*row).expectError, "status": (*row).expectStatus, "replies": (*row).checkHeader, "OP": (*row).expectOperation,
		"is": (*row).checkIs, "not": (*row).checkNot, "matches": (*row).checkMatches, "same": (*row).checkSame,
		"has": (*row).checkHas, "absent": (*row).checkAbsent, "count": (*row).checkCount, "ids": (*row).checkIDs,
		"now": (*row).checkNow, "later": (*row).checkLater, "violation": (*row).checkViolation,
		"node": (*row).startNode, "stop": (*row).stopNode, "TRAFFIC": (*row).traffic,
		"LOGS": (*row).expectLogs, "record": (*row).showRecord, "nolog": (*row).checkNoLog,
		"peer": (*row).peer, "server": (*row).addServer, "via": (*row).useServer, "as": (*row).authenticate, "guard": (*row).checkCallers, "header": (*row).addHeader,
		"PROMOTE": (*row).promote, "evidence": (*row).publishEvidence, "clock": (*row).moveClock, "go": (*row).runGo,
	}
	for _, method := range []string{"GET", "POST", "PATCH", "PUT", "DELETE"} {
		words[method] = func(r *row, rest string) { r.callOver(method, rest) }
	}
}

// loop runs the block of `for NAME in a b c`.
func (r *row) loop(s statement) {
	name, list, ok := strings.Cut(s.rest, " in ")
	if !ok {
		r.fatalf("for NAME in WORDS")
	}
	for word := range strings.FieldsSeq(list) {
		r.variables[strings.TrimSpace(name)] = r.expand(word, plain)
		r.execute(s.block)
		r.expectSuccess()
	}
}

// capture runs `NAME = path` and `NAME = repeat text n`.
func (r *row) capture(name, expression string) {
	r.expectSuccess()
	fields := strings.Fields(expression)
	if len(fields) == 3 && fields[0] == "repeat" {
		n := 0
		if _, err := fmt.Sscan(fields[2], &n); err != nil {
			r.fatalf("repeat TEXT N: %v", err)
		}
		r.variables[name] = strings.Repeat(fields[1], n)
		return
	}
	r.variables[name] = r.value(expression)
}

func (r *row) addServer(name string) { r.servers[name] = r.serve(r.store.another(r)) }

func (r *row) useServer(name string) {
	if r.servers[name] == nil {
		r.fatalf("there is no server %s", name)
	}
	r.via = name
}

func (r *row) authenticate(member string) { r.member = member }

func (r *row) addHeader(rest string) {
	name, value, _ := strings.Cut(r.expand(rest, plain), ": ")
	r.header[name] = value
}

func (r *row) moveClock(by string) {
	d, err := time.ParseDuration(strings.TrimPrefix(by, "+"))
	if err != nil {
		r.fatalf("clock +DURATION: %v", err)
	}
	r.clock.move(d)
}

func (r *row) runGo(string) {
	run, ok := rows[r.id]
	if !ok {
		r.fatalf("there is no Go function for %s", r.id)
	}
	run(r)
}

// await repeats an attempt until it returns nothing. The failure says what it returned last, and
// names the position in the script.
func (r *row) await(what string, attempt func() string) {
	r.Helper()
	var missing string
	testkit.Await(r, fmt.Sprintf("%s:%d: %s", r.script.path, r.line, what),
		func() bool { missing = attempt(); return missing == "" },
		func() any { return missing })
}

// fatalf ends the row with the place in the script.
func (r *row) fatalf(format string, args ...any) {
	r.Helper()
	r.Fatalf("%s:%d: %s", r.script.path, r.line, fmt.Sprintf(format, args...))
}

// errorf notes a failure with the place in the script.
func (r *row) errorf(format string, args ...any) {
	r.Helper()
	r.Errorf("%s:%d: %s", r.script.path, r.line, fmt.Sprintf(format, args...))
}
