// The requirements of RFC-042. Each is a file of testdata/requirements, named by its
// ID, which begins with its sentence; what follows proves it, over real HTTP, on each
// store, with and without the path of an organization:
//
//	go test ./admin/policyfile -run TestRequirements/R-24
//
// A line is a call, METHOD PATH [BODY], and the next one what has to come of it:
//
//	201                     the status alone
//	200 {"a":1}             and this JSON, whatever its blanks
//	200 bytes $WEB          and these bytes
//	404 error TEXT          and {"error":["TEXT"]}
//	200 has TEXT            and a body with this text
//	header Location: TEXT   and a header; it follows one of the above
//
// Others prepare:
//
//	NAME = TEXT             a variable, $NAME
//	NAME = seal TEXT        a lock with the revision_id that it has to have, which is $NAME.id
//	NAME = repeat TEXT N    a long text
//	NAME = active GROUP POLICY
//	                        the revision_id of what is active
//	trust                   from here on, the server trusts revision IDs
//	node GROUP NODE         runs a sidecar
//	admin METHOD PATH BODY  a call of the other API; it has to succeed
//
// $BASE is the origin and the organization, $ORIGIN the origin, $P the project. $WEB
// and $WEB2 are two revisions of the policy web.
package policyfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequirements(t *testing.T) {
	files, err := filepath.Glob("testdata/requirements/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no requirements: %v", err)
	}
	for _, b := range backends(t) {
		for _, file := range files {
			id := strings.TrimSuffix(filepath.Base(file), ".txt")
			for _, organization := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/organization=%v", id, b.name, organization), func(t *testing.T) {
					t.Parallel()
					project := strings.ToLower(fmt.Sprintf("p-%s-%v", id, organization))
					r := &row{server: serve(t, b.open(t), project, false), file: file}
					if organization {
						r.prefix = "/organizations/" + project
					}
					r.run()
				})
			}
		}
	}
}

// row is one requirement being proven.
type row struct {
	*server
	file      string
	line      int
	variables map[string]string
	answer    *apiResponse
}

var (
	callLine    = regexp.MustCompile(`^(GET|HEAD|POST|PUT|PATCH|DELETE) (\S+)(?: (.*))?$`)
	expectLine  = regexp.MustCompile(`^(\d{3})(?: (.*))?$`)
	assignLine  = regexp.MustCompile(`^([A-Z0-9]+) = (.*)$`)
	variableUse = regexp.MustCompile(`\$([A-Z0-9]+)(\.id)?`)
)

func (r *row) run() {
	r.variables = map[string]string{"BASE": r.URL + r.prefix, "ORIGIN": r.URL, "P": r.project}
	r.variables["WEB"] = seal(r.T, `{"name":"web","run_list":["recipe[web::default]"],"cookbook_locks":{"web":{"version":"1.0.0","identifier":"f04cc40faf628253fe7d9566d66a1733fb1afbe9"}}}`)
	r.variables["WEB2"] = seal(r.T, `{"name":"web","run_list":["recipe[web::default]"],"cookbook_locks":{"web":{"version":"1.0.1","identifier":"aaaac40faf628253fe7d9566d66a1733fb1aaaaa"}}}`)
	content, err := os.ReadFile(r.file)
	if err != nil {
		r.Fatal(err)
	}
	proven := false
	for i, line := range strings.Split(string(content), "\n") {
		r.line = i + 1
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		proven = r.execute(line) || proven
	}
	if !proven {
		r.Fatal("the row proves nothing")
	}
}

// execute runs a line and reports whether it expects something.
func (r *row) execute(line string) bool {
	r.Helper()
	if m := expectLine.FindStringSubmatch(line); m != nil {
		r.expect(m[1], m[2])
		return true
	}
	if m := callLine.FindStringSubmatch(line); m != nil {
		a := r.call(m[1], r.expand(m[2]), r.expand(m[3]))
		r.answer = &a
		return false
	}
	if m := assignLine.FindStringSubmatch(line); m != nil {
		r.assign(m[1], m[2])
		return false
	}
	word, rest, _ := strings.Cut(line, " ")
	rest = r.expand(rest)
	switch word {
	case "trust":
		prefix := r.prefix
		r.server = serve(r.T, r.store, r.project, true)
		r.prefix = prefix
		r.variables["BASE"], r.variables["ORIGIN"] = r.URL+r.prefix, r.URL
	case "node":
		group, node, _ := strings.Cut(rest, " ")
		r.startNode(group, node)
	case "header":
		name, want, _ := strings.Cut(rest, ": ")
		if got := r.answer.header.Get(name); got != want {
			r.errorf("%s is %q, want %q", name, got, want)
		}
	case "admin":
		m := callLine.FindStringSubmatch(rest)
		prefix := r.prefix
		r.prefix = ""
		r.must(m[1], m[2], m[3])
		r.prefix = prefix
	default:
		r.Fatalf("%s:%d: unknown statement %q", r.file, r.line, word)
	}
	return false
}

func (r *row) assign(name, value string) {
	word, rest, _ := strings.Cut(value, " ")
	switch word {
	case "active":
		group, policy, _ := strings.Cut(rest, " ")
		var active struct {
			ID string `json:"revision_id"`
		}
		if err := json.Unmarshal(r.must("GET", "/policy_groups/"+group+"/policies/"+policy, "").body, &active); err != nil {
			r.Fatal(err)
		}
		value = active.ID
	case "seal":
		value = seal(r.T, r.expand(rest))
	case "repeat":
		text, count, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			r.Fatalf("%s:%d: %v", r.file, r.line, err)
		}
		value = strings.Repeat(text, n)
	default:
		value = r.expand(value)
	}
	r.variables[name] = value
}

func (r *row) expand(text string) string {
	return variableUse.ReplaceAllStringFunc(text, func(use string) string {
		m := variableUse.FindStringSubmatch(use)
		value, ok := r.variables[m[1]]
		if !ok {
			r.Fatalf("%s:%d: there is no variable $%s", r.file, r.line, m[1])
		}
		if m[2] != "" {
			return idOf(r.T, value)
		}
		return value
	})
}

func (r *row) expect(status, what string) {
	r.Helper()
	if got := strconv.Itoa(r.answer.status); got != status {
		r.errorf("the status is %s, want %s: %s", got, status, r.answer.body)
		return
	}
	if got := r.answer.header.Get("Content-Type"); got != "application/json" {
		r.errorf("the Content-Type is %q", got)
	}
	if r.answer.status >= 400 {
		r.checkError()
	}
	form, rest, _ := strings.Cut(what, " ")
	rest = r.expand(rest)
	switch form {
	case "":
	case "bytes":
		if got := string(r.answer.body); got != rest {
			r.errorf("the body is\n%s\nwant\n%s", got, rest)
		}
	case "has":
		if !bytes.Contains(r.answer.body, []byte(rest)) {
			r.errorf("the body has no %q: %s", rest, r.answer.body)
		}
	case "error":
		r.checkJSON(map[string]any{"error": []any{rest}})
	default:
		var want any
		if err := json.Unmarshal([]byte(r.expand(what)), &want); err != nil {
			r.Fatalf("%s:%d: %v", r.file, r.line, err)
		}
		r.checkJSON(want)
	}
}

func (r *row) checkJSON(want any) {
	r.Helper()
	var got any
	if err := json.Unmarshal(r.answer.body, &got); err != nil {
		r.errorf("%v: %s", err, r.answer.body)
	}
	if d := cmp.Diff(want, got); d != "" {
		r.errorf("(-want +got)\n%s", d)
	}
}

// alone is the one error that Chef's server writes as a text, and not as a list of texts.
const alone = `{"error":"Cookbook artifact already exists"}`

// checkError holds every error to the one shape that clients read, and to silence
// about what the store is made of.
func (r *row) checkError() {
	r.Helper()
	var e struct{ Error []string }
	shaped := json.Unmarshal(r.answer.body, &e) == nil && len(e.Error) > 0 && e.Error[0] != ""
	if !shaped && strings.TrimSpace(string(r.answer.body)) != alone {
		r.errorf("the error has not the shape of an error: %s", r.answer.body)
	}
	if lower := bytes.ToLower(r.answer.body); bytes.Contains(lower, []byte("redis")) || bytes.Contains(lower, []byte("bbolt")) {
		r.errorf("the error names a technology: %s", r.answer.body)
	}
}

func (r *row) errorf(format string, args ...any) {
	r.Helper()
	r.Errorf("%s:%d: %s", r.file, r.line, fmt.Sprintf(format, args...))
}
