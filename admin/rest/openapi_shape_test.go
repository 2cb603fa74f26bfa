package rest_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
)

// openAPI is what the tests read of the document.
type openAPI struct {
	Servers  []struct{ URL string }
	Security *[]map[string][]string
	Tags     []struct{ Name string }
	Paths    map[string]map[string]*openAPICall
	// Components are the schemas by name.
	Components struct {
		Schemas map[string]*openAPISchema
	}
}

type openAPICall struct {
	OperationID          string
	Summary, Description string
	Tags                 []string
	Parameters           []openAPIParameter
	RequestBody          *struct {
		Required bool
		Content  map[string]struct{ Schema *openAPISchema }
	}
}

type openAPIParameter struct {
	Name, In string
	Required bool
	Schema   *openAPISchema
}

type openAPISchema struct {
	Ref           string `json:"$ref"`
	Description   string
	Pattern       string
	MaxLength     *int
	MinItems      *int
	MaxItems      *int
	Minimum       *int
	Maximum       *int
	Required      []string
	Items         *openAPISchema
	PropertyNames *openAPISchema
	Properties    map[string]*openAPISchema
}

func readOpenAPI(t *testing.T) openAPI {
	t.Helper()
	var document openAPI
	if err := json.Unmarshal(adminpb.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// TestNoOneOfBesideProperties: generators take a schema with both for one or the other,
// and their clients lose the common properties or refuse every answer.
func TestNoOneOfBesideProperties(t *testing.T) {
	var document any
	if err := json.Unmarshal(adminpb.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			for _, alternatives := range []string{"oneOf", "anyOf", "allOf"} {
				if node[alternatives] != nil && node["properties"] != nil {
					t.Errorf("%s has %s beside properties", path, alternatives)
				}
			}
			for key, value := range node {
				walk(path+"/"+key, value)
			}
		case []any:
			for _, value := range node {
				walk(path, value)
			}
		}
	}
	walk("", document)
	rule := readOpenAPI(t).Components.Schemas["PolicyRule"]
	if rule.Properties["ruleId"] == nil || !strings.Contains(rule.Description, "Set one of `rego`, `maximumReservationLength`, `externalService`.") {
		t.Errorf("a rule is described as %+v", rule)
	}
}

// TestOpenAPIIsWhatGeneratorsNeed: a server and a statement about security, a tag that
// is declared, one short name and some words for each call; a PATCH may leave out what it
// does not change.
func TestOpenAPIIsWhatGeneratorsNeed(t *testing.T) {
	document := readOpenAPI(t)
	if len(document.Servers) == 0 || document.Security == nil || len(*document.Security) != 2 {
		t.Errorf("servers are %v, security is %v: the API may take a token or nothing, and has to say so", document.Servers, document.Security)
	}
	seen := make(map[string]string)
	for path, methods := range document.Paths {
		for method, call := range methods {
			if other, twice := seen[call.OperationID]; twice || strings.ContainsAny(call.OperationID, "_. ") {
				t.Errorf("%s %s is called %q; so is %q", method, path, call.OperationID, other)
			}
			seen[call.OperationID] = path
			if len(call.Tags) != 1 || !slices.ContainsFunc(document.Tags, func(t struct{ Name string }) bool { return t.Name == call.Tags[0] }) {
				t.Errorf("%s has the tags %v, which are not all declared", call.OperationID, call.Tags)
			}
			if call.Summary == "" || call.Description == "" {
				t.Errorf("%s is not described", call.OperationID)
			}
		}
	}
	if required := document.Components.Schemas["PolicyExperiment"].Required; len(required) > 0 {
		t.Errorf("the PATCH of an experiment requires %v", required)
	}
	for _, name := range []string{"getReport", "commitPolicyExperiment"} {
		if strings.Contains(string(adminpb.OpenAPI), "Not built yet") || seen[name] == "" {
			t.Errorf("%s is not there, or something says that it is not built yet", name)
		}
	}
}

// TestRequiredBodiesAreThoseTheServerRequires sends every POST and PATCH without a body.
func TestRequiredBodiesAreThoseTheServerRequires(t *testing.T) {
	edge := newEdge(t)
	for path, methods := range readOpenAPI(t).Paths {
		for method, call := range methods {
			if call.RequestBody == nil {
				continue
			}
			target := fillPath(path, nil)
			for _, p := range call.Parameters {
				if p.In == "query" && p.Required {
					target += "?" + p.Name + "=web"
				}
			}
			a := ask(t, edge, strings.ToUpper(method), target, "")
			if refused := strings.Contains(a.text, "INVALID_ARGUMENT"); refused != call.RequestBody.Required {
				t.Errorf("%s without a body: %d %s; the document says required: %t", call.OperationID, a.status, a.text, call.RequestBody.Required)
			}
		}
	}
}

// fillPath puts IDs into a path template: those given, and "x" for the others.
func fillPath(path string, ids map[string]string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if name, verb, found := strings.Cut(strings.TrimPrefix(s, "{"), "}"); found {
			if segments[i] = "x" + verb; ids[name] != "" {
				segments[i] = ids[name] + verb
			}
		}
	}
	return strings.Join(segments, "/")
}
