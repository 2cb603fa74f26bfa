package rest_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// TestOperationsFilterByTheirFields filters by what the operations of a create, a start
// and a commit have, as their JSON shows it.
func TestOperationsFilterByTheirFields(t *testing.T) {
	edge := newEdge(t)
	commit := rehearsed(t, edge)
	must(t, edge, "POST", edgeLocation+"/policies/web/experiments/e1:commit", commit)
	policy := edgeLocation[len("/v1/"):] + "/policies/web"
	for filter, want := range map[string]int{
		``:            4,
		`done = true`: 4, `NOT done = true`: 0, `error:*`: 0, `error.code = 3`: 0,
		`metadata.verb = create`:                                       2,
		`metadata.verb = startPreview`:                                 1,
		`metadata.operation.verb = startPreview`:                       1,
		`metadata.operation.verb:*`:                                    2,
		`metadata.target = "` + policy + `"`:                           1,
		`metadata.create_time > "2001-01-01T00:00:00Z"`:                4,
		`metadata.revision = "` + policy + `/revisions/*"`:             1,
		`response.display_name = live`:                                 1,
		`response.policy.display_name = new`:                           2,
		`response.preview_metadata.state = ACTIVE`:                     1,
		`response.name = "` + policy + `*" AND metadata.verb = create`: 2,
	} {
		found, _ := must(t, edge, "GET", edgeLocation+"/operations?filter="+url.QueryEscape(filter), "")["operations"].([]any)
		if len(found) != want {
			t.Errorf("%s: %d operations, want %d", filter, len(found), want)
		}
	}
	for _, filter := range []string{`response.verb = create`, `response.target = x`, `metadata.display_name = x`, `metadata.operation.revision = x`, `verb = create`, `exists(done)`} {
		a := ask(t, edge, "GET", edgeLocation+"/operations?filter="+url.QueryEscape(filter), "")
		if a.status != http.StatusBadRequest || a.reason != "INVALID_FILTER" {
			t.Errorf("%s: %d %s", filter, a.status, a.text)
		}
	}
}

// TestFiltersNameTheirFields holds what the document says of a filter against the
// messages: it names every field, and nothing that is no field.
func TestFiltersNameTheirFields(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, Description string }
		}
	}
	if err := json.Unmarshal(adminpb.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	const location = "/v1/projects/{project}/locations/{location}"
	for path, resource := range map[string]proto.Message{
		"/policies": &adminpb.Policy{}, "/policies/{policy}/experiments": &adminpb.PolicyExperiment{},
		"/policies/{policy}/revisions": &adminpb.PolicyRevision{}, "/nodes": &adminpb.Node{}, "/operations": &longrunningpb.Operation{},
	} {
		fields := resource.ProtoReflect().Descriptor().Fields()
		var names []string
		for i := range fields.Len() {
			names = append(names, string(fields.Get(i).Name()))
		}
		for _, p := range document.Paths[location+path]["get"].Parameters {
			if p.Name != "filter" {
				continue
			}
			checkFilterText(t, path, p.Description, names, aip.Schema{Message: resource.ProtoReflect().Descriptor()})
			names = nil
		}
		if names != nil {
			t.Errorf("%s has no filter", path)
		}
	}
}

var (
	fieldInText   = regexp.MustCompile("`([a-z_]+)`")
	exampleInText = regexp.MustCompile("Example: `([^`]+)`")
)

func checkFilterText(t *testing.T, path, text string, names []string, schema aip.Schema) {
	t.Helper()
	var said []string
	for _, m := range fieldInText.FindAllStringSubmatch(text, -1) {
		said = append(said, m[1])
		if _, err := aip.ParseFilter(m[1]+":*", schema); err != nil {
			t.Errorf("%s: the text says `%s`: %v", path, m[1], err)
		}
	}
	for _, name := range names {
		if !slices.Contains(said, name) {
			t.Errorf("%s: the text does not name `%s`: %s", path, name, text)
		}
	}
	example := exampleInText.FindStringSubmatch(text)
	if example == nil {
		t.Fatalf("%s: the text has no example: %s", path, text)
	}
	target := edgeLocation + strings.ReplaceAll(path, "{policy}", "-") + "?filter=" + url.QueryEscape(example[1])
	must(t, newEdge(t), "GET", target, "")
}
