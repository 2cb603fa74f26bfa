package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The document and the validators agree: of each pattern and limit in the document, what
// it lets through is taken by the server, and what it refuses is refused. Two rules are
// beyond patterns that every language has, and are in words alone: no ID is . or .., and
// the prefix of an annotation's key has at most 253 characters.

// samples are texts on both sides of the patterns.
var samples = []string{
	"web", "a1", "a-b", "a-", "1a", "A", "a.b", "a_b", "a:b", "a b", "é", "a@b", "@b", "a@", "@a@b", "a@b@", "a@@", "a/b", "a//b", "/b", "a/", "a..b/c", "a.b/c",
	"10s", "1.5s", "0s", "-1s", "1", "1.0000000001s", "1m", "s",
	strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 255), strings.Repeat("a", 256), strings.Repeat("é", 255),
	strings.Repeat("a", 63) + "/" + strings.Repeat("b", 63), strings.Repeat("a.", 126) + "a/b",
	"5f0f9c1e-3c2a-4b7e-9d51-0c2f8a6b7d11",
}

// allows reports whether a schema of the document takes a text.
func (s *openAPISchema) allows(text string) bool {
	return (s.Pattern == "" || regexp.MustCompile(s.Pattern).MatchString(text)) &&
		(s.MaxLength == nil || utf8.RuneCountInString(text) <= *s.MaxLength)
}

// agree sends what a schema allows and what it does not, and holds the answers against
// that. refused says whether an answer is the one to a text that is not valid.
func (s *openAPISchema) agree(t *testing.T, what string, texts []string, refused func(text string) bool) {
	t.Helper()
	taken := 0
	for _, text := range texts {
		if s.allows(text) {
			taken++
		}
		if refused(text) == s.allows(text) {
			t.Errorf("%s: of %.80q (%d bytes) the document says %t, the server the opposite", what, text, len(text), s.allows(text))
		}
	}
	if taken == 0 || taken == len(texts) {
		t.Errorf("%s: the document allows %d of %d texts, so this proves nothing; its pattern is %q", what, taken, len(texts), s.Pattern)
	}
}

// TestDocumentedParametersAreThoseOfTheServer probes every parameter that has limits.
func TestDocumentedParametersAreThoseOfTheServer(t *testing.T) {
	edge := newEdge(t)
	for path, methods := range readOpenAPI(t).Paths {
		for method, call := range methods {
			if ask(t, edge, strings.ToUpper(method), fillPath(path, nil), "").status == http.StatusNotImplemented {
				continue
			}
			for _, p := range call.Parameters {
				probeParameter(t, edge, strings.ToUpper(method), path, p)
			}
		}
	}
}

func probeParameter(t *testing.T, edge *httptest.Server, method, path string, p openAPIParameter) {
	t.Helper()
	what := method + " " + path + " " + p.Name
	body := map[string]string{"POST": `{}`, "PATCH": `{}`}[method]
	asked := func(ids map[string]string, query string) edgeResponse {
		return ask(t, edge, method, fillPath(path, ids)+"?"+query, body)
	}
	switch {
	case p.In == "path":
		p.Schema.agree(t, what, withoutSlashes(samples), func(text string) bool {
			a := asked(map[string]string{p.Name: url.PathEscape(text)}, "")
			return a.reason == "INVALID_NAME"
		})
	case strings.HasSuffix(p.Name, "Id"):
		p.Schema.agree(t, what, samples, func(text string) bool {
			return asked(nil, p.Name+"="+url.QueryEscape(text)).reason == "INVALID_ID"
		})
	case p.Name == "filter":
		p.Schema.agree(t, what, []string{strings.Repeat("a", *p.Schema.MaxLength), strings.Repeat("a", *p.Schema.MaxLength+1)}, func(text string) bool {
			return asked(nil, "filter="+text).reason == "INVALID_FILTER"
		})
	case p.Schema.Maximum != nil:
		probeShare(t, what, p.Schema, func(share float64) bool {
			return asked(nil, fmt.Sprint(p.Name, "=", share)).reason == "INVALID_FIELD"
		})
	case p.Name == "pageSize":
		for _, size := range []int{*p.Schema.Minimum - 1, *p.Schema.Minimum, 1, 5000} {
			if refused := asked(nil, fmt.Sprint("pageSize=", size)).reason == "INVALID_PAGE_SIZE"; refused != (size < *p.Schema.Minimum) {
				t.Errorf("%s: %d is refused: %t", what, size, refused)
			}
		}
	}
}

// probeShare holds a share to the limits that the document has.
func probeShare(t *testing.T, what string, s *openAPISchema, refused func(share float64) bool) {
	t.Helper()
	for _, share := range []float64{-0.001, 0, 0.5, 1, 1.001} {
		allowed := share >= float64(*s.Minimum) && share <= float64(*s.Maximum)
		if got := refused(share); got == allowed {
			t.Errorf("%s: %v is refused: %t; the document allows it: %t", what, share, got, allowed)
		}
	}
}

// withoutSlashes leaves out what is no segment of a path.
func withoutSlashes(texts []string) []string {
	var out []string
	for _, text := range texts {
		if !strings.Contains(text, "/") {
			out = append(out, text)
		}
	}
	return out
}

// TestDocumentedPropertiesAreThoseOfTheServer probes every property that has limits.
func TestDocumentedPropertiesAreThoseOfTheServer(t *testing.T) {
	edge := newEdge(t)
	schemas := readOpenAPI(t).Components.Schemas
	policy := schemas["Policy"].Properties
	refuses := func(value any, property ...string) bool {
		for i := len(property) - 1; i >= 0; i-- {
			value = map[string]any{property[i]: value}
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return ask(t, edge, "POST", edgeLocation+"/policies?policyId=p&validateOnly=true", string(text)).status == http.StatusBadRequest
	}
	names := []string{"", "é", strings.Repeat("é", 63), strings.Repeat("é", 64), strings.Repeat("a", 64)}
	policy["displayName"].agree(t, "displayName", names, func(text string) bool { return refuses(text, "displayName") })
	policy["exemptedProjects"].Items.agree(t, "exemptedProjects", append(samples, ""), func(text string) bool {
		return refuses([]string{text}, "exemptedProjects")
	})
	policy["annotations"].PropertyNames.agree(t, "annotations", samples, func(text string) bool { return refuses("v", "annotations", text) })
	length := schemas["MaximumReservationLengthFilter"].Properties["reservationMaxLength"]
	length.agree(t, "reservationMaxLength", samples, func(text string) bool {
		return refuses([]any{map[string]any{"maximumReservationLength": map[string]any{"reservationMaxLength": text}}}, "rules")
	})
	for name, item := range map[string]any{"rules": map[string]any{"maximumReservationLength": map[string]any{}}, "exemptedProjects": "p"} {
		for _, more := range []int{0, 1} {
			items := make([]any, *policy[name].MaxItems+more)
			for i := range items {
				items[i] = item
			}
			if refuses(items, name) != (more > 0) {
				t.Errorf("%d %s: refused %t", len(items), name, more == 0)
			}
		}
	}
	probePromotion(t, edge, schemas["PromotePoliciesRequest"].Properties["policies"])
	probeTimeout(t, edge, readOpenAPI(t))
	for name, property := range schemas["CommitRequirements"].Properties {
		if property.Maximum == nil {
			continue
		}
		probeShare(t, name, property, func(share float64) bool {
			body := fmt.Sprintf(`{"commitRequirements":{%q:%v}}`, name, share)
			return ask(t, edge, "PATCH", edgeLocation+"/config?validateOnly=true", body).status == http.StatusBadRequest
		})
	}
}

// probePromotion probes the number of policies that are promoted together.
func probePromotion(t *testing.T, edge *httptest.Server, s *openAPISchema) {
	t.Helper()
	for _, n := range []int{*s.MinItems - 1, *s.MinItems, *s.MaxItems, *s.MaxItems + 1} {
		policies := make([]map[string]string, n)
		for i := range policies {
			policies[i] = map[string]string{"revision": fmt.Sprintf("projects/p/locations/l/policies/p%d/revisions/x", i)}
		}
		body, err := json.Marshal(map[string]any{"destination": "projects/p/locations/next", "policies": policies})
		if err != nil {
			t.Fatal(err)
		}
		a := ask(t, edge, "POST", "/v1/projects/p/locations/l/policies:promote", string(body))
		if refused, allowed := strings.Contains(a.reason, "_FIELD"), *s.MinItems <= n && n <= *s.MaxItems; refused == allowed {
			t.Errorf("a promotion of %d policies is answered with %s; the document allows it: %t", n, a.reason, allowed)
		}
	}
}

// probeTimeout probes the timeout of a wait, which needs an operation.
func probeTimeout(t *testing.T, edge *httptest.Server, document openAPI) {
	t.Helper()
	operation := must(t, edge, "POST", edgeLocation+"/policies?policyId=web", `{}`)["name"].(string)
	for path, methods := range document.Paths {
		if !strings.HasSuffix(path, ":wait") {
			continue
		}
		reference := methods["post"].RequestBody.Content["application/json"].Schema.Ref
		timeout := document.Components.Schemas[reference[strings.LastIndexByte(reference, '/')+1:]].Properties["timeout"]
		timeout.agree(t, "timeout", samples, func(text string) bool {
			body, err := json.Marshal(map[string]string{"timeout": text})
			if err != nil {
				t.Fatal(err)
			}
			return ask(t, edge, "POST", "/v1/"+operation+":wait", string(body)).status == http.StatusBadRequest
		})
	}
}
