package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/iam"
	"understudy/admin/rest"
	adminpb "understudy/admin/v1"
)

// newEdge serves the API on a store of its own.
func newEdge(t testing.TB) *httptest.Server {
	t.Helper()
	store := newBoltStore(t)
	server, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	mixin, err := iam.New(iam.Config{Admin: server})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Services: server, IAM: mixin})
	if err != nil {
		t.Fatal(err)
	}
	edge := httptest.NewServer(handler)
	t.Cleanup(edge.Close)
	return edge
}

// TestOpenAPIHasEveryRoute reads the document as a client does.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	response, err := http.Get(newEdge(t).URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var document struct {
		OpenAPI    string
		Paths      map[string]map[string]any
		Components map[string]map[string]any
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.") {
		t.Errorf("the version is %q", document.OpenAPI)
	}
	for route := range everyRoute() {
		method, path, _ := strings.Cut(route, " ")
		if document.Paths[path][method] == nil {
			t.Errorf("the document lacks %s", route)
		}
	}
	for _, m := range regexp.MustCompile(`"\$ref": ?"#/components/([^/]+)/([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		if document.Components[m[1]][m[2]] == nil {
			t.Errorf("the document refers to %s/%s, which it lacks", m[1], m[2])
		}
	}
}

var templateVariable = regexp.MustCompile(`\{[^}=]+=([^}]+)\}`)

// everyRoute is the set of methods and paths that the descriptors have, as OpenAPI
// writes them.
func everyRoute() map[string]bool {
	out := make(map[string]bool)
	methods := adminpb.File_understudy_admin_v1_admin_proto.Services().Get(0).Methods()
	for i := range methods.Len() {
		rule, _ := proto.GetExtension(methods.Get(i).Options(), annotations.E_Http).(*annotations.HttpRule)
		for method, template := range map[string]string{
			"get": rule.GetGet(), "post": rule.GetPost(), "patch": rule.GetPatch(), "delete": rule.GetDelete(),
		} {
			if template != "" {
				out[method+" "+openAPIPath(template)] = true
			}
		}
	}
	return out
}

func openAPIPath(template string) string {
	segments := strings.Split(templateVariable.ReplaceAllString(template, "$1"), "/")
	for i, s := range segments {
		if head, verb, _ := strings.Cut(s, ":"); head == "*" {
			name := strings.TrimSuffix(segments[i-1], "s")
			if stem, ok := strings.CutSuffix(segments[i-1], "ies"); ok {
				name = stem + "y"
			}
			segments[i] = "{" + name + "}"
			if verb != "" {
				segments[i] += ":" + verb
			}
		}
	}
	return strings.Join(segments, "/")
}

// FuzzREST sends any body and query to the methods that take them: no panic and no
// 500, and every error in its envelope.
func FuzzREST(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"displayName":"n"}`, "updateMask=displayName"}, {`{"rules":[{"rego":{}}],"modules":{"a":"package a"}}`, "policyId=x"},
		{`{"policy":{"name":"p"},"annotations":{"a":1}}`, "filter=a%20%3D%20b&orderBy=name&$alt=json;enum-encoding%3Dint"}, {`[`, "pageToken=%ff"},
		{`{"data":{"a":{"b":[1e400]}}}`, "update_mask=annotations.%60a%60&validateOnly=true"},
	} {
		f.Add(seed[0], seed[1])
	}
	edge := newEdge(f)
	const location = "/v1/projects/p1/locations/l1"
	f.Fuzz(func(t *testing.T, body, query string) {
		for _, c := range [][2]string{
			{"POST", location + "/policies"}, {"PATCH", location + "/policies/web"}, {"GET", location + "/policies"},
			{"POST", location + "/policies/web/experiments"}, {"PATCH", location + "/policies/web/experiments/e1"},
			{"POST", location + "/policies/web/experiments/e1:commit"}, {"GET", location + "/operations"},
			{"POST", location + "/policies/" + url.PathEscape(query)},
		} {
			checkEdge(t, edge, c[0], c[1], query, body)
		}
	})
}

// sendable escapes the bytes that cannot be in a request line, which the server
// would refuse before the API sees them.
func sendable(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c > ' ' && c < 0x7f && c != '#' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func checkEdge(t *testing.T, edge *httptest.Server, method, path, query, body string) {
	t.Helper()
	target, err := url.Parse(edge.URL + path)
	if err != nil {
		return
	}
	target.RawQuery = sendable(query)
	request := &http.Request{Method: method, URL: target, Header: http.Header{"Content-Type": {"application/json"}}}
	if method != http.MethodGet {
		request.Body = io.NopCloser(strings.NewReader(body))
	}
	response, err := edge.Client().Do(request.WithContext(t.Context()))
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode >= 500 && response.StatusCode != http.StatusNotImplemented {
		t.Errorf("%s %s?%s answered %d %s", method, path, query, response.StatusCode, text)
	}
	if slices.Contains([]int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusConflict}, response.StatusCode) && !json.Valid(text) {
		t.Errorf("%s %s answered %q", method, path, text)
	}
}

// newBoltStore opens a store in a temporary folder.
func newBoltStore(t testing.TB) admin.Store {
	t.Helper()
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}
