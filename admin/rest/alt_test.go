package rest_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// altForms are `$alt` as Google's generators write it: Python (requests) and Go escape
// all, Node only the semicolon, Java only the equals sign.
var altForms = []string{
	"%24alt=json%3Benum-encoding%3Dint", "$alt=json%3Benum-encoding=int", "$alt=json;enum-encoding%3Dint", "$alt=json;enum-encoding=int",
}

// TestEnumsAreNumbersWhereAskedFor sends what clients of Google's generators send.
func TestEnumsAreNumbersWhereAskedFor(t *testing.T) {
	edge := newEdge(t)
	rehearsed(t, edge)
	const experiment = edgeLocation + "/policies/web/experiments/e1"
	for query, want := range map[string]any{"": "ACTIVE", "?$alt=json": "ACTIVE", "?%24alt=json": "ACTIVE"} {
		if got := stateOf(must(t, edge, "GET", experiment+query, "")); got != want {
			t.Errorf("GET %s: the state is %v, want %v", query, got, want)
		}
	}
	for _, form := range altForms {
		if got := stateOf(must(t, edge, "GET", experiment+"?"+form, "")); got != 1.0 {
			t.Errorf("GET ?%s: the state is %v, want 1", form, got)
		}
		operation := must(t, edge, "POST", experiment+":startPreview?"+form, `{}`)
		if got := stateOf(operation["response"].(map[string]any)); got != 1.0 {
			t.Errorf("startPreview ?%s: the state in the operation is %v, want 1", form, got)
		}
		list := must(t, edge, "GET", edgeLocation+"/policies/web/experiments?filter="+
			url.QueryEscape("preview_metadata.state = ACTIVE")+"&"+form+"&pageSize=1", "")
		if got := stateOf(list["policyExperiments"].([]any)[0].(map[string]any)); got != 1.0 {
			t.Errorf("a list, &%s: the state is %v, want 1", form, got)
		}
	}
}

func stateOf(experiment map[string]any) any {
	return experiment["previewMetadata"].(map[string]any)["state"]
}

// TestAltIsNoWayAroundTheGuard: another value of `$alt`, two of it, and what stands
// next to it are refused as always.
func TestAltIsNoWayAroundTheGuard(t *testing.T) {
	edge := newEdge(t)
	commit := rehearsed(t, edge)
	for query, reason := range map[string]string{
		"$alt=proto": "INVALID_PARAMETER", "$alt=": "INVALID_PARAMETER", "$alt=%zz": "INVALID_PARAMETER",
		"$alt=json;enum-encoding=int;validateOnly=true": "INVALID_PARAMETER",
		altForms[0] + "&$alt=json":                      "INVALID_PARAMETER",
		altForms[0] + "&validateOnly=true":              "UNKNOWN_PARAMETER",
		altForms[2] + "&validateOnly=true;x=1":          "INVALID_PARAMETER",
		"alt=json":                                      "UNKNOWN_PARAMETER",
	} {
		a := ask(t, edge, "POST", edgeLocation+"/policies/web/experiments/e1:commit?"+query, commit)
		if a.status != http.StatusBadRequest || a.reason != reason {
			t.Errorf("commit?%s: %d %s, want 400 %s", query, a.status, a.text, reason)
		}
	}
}

// TestAnEmptyMaskIsNone: a client whose message has a mask without paths sends
// `updateMask=` (AIP-134: treated as omitted).
func TestAnEmptyMaskIsNone(t *testing.T) {
	edge := newEdge(t)
	must(t, edge, "POST", edgeLocation+"/policies?policyId=web", `{"displayName":"old","annotations":{"a":"b"}}`)
	for _, query := range []string{"updateMask=", "update_mask=", "updateMask", "updateMask=&validateOnly=false"} {
		must(t, edge, "PATCH", edgeLocation+"/policies/web?"+query, `{"displayName":"new `+query+`"}`)
		policy := must(t, edge, "GET", edgeLocation+"/policies/web", "")
		if policy["displayName"] != "new "+query || policy["annotations"] == nil {
			t.Errorf("PATCH ?%s made the policy %v", query, policy)
		}
	}
	must(t, edge, "PATCH", edgeLocation+"/config?updateMask=", `{}`)
	if a := ask(t, edge, "PATCH", edgeLocation+"/policies/web?updateMask=,", `{}`); a.reason != "INVALID_UPDATE_MASK" {
		t.Errorf("a mask of two empty paths: %d %s", a.status, a.text)
	}
}

// TestHeadIsGetWithoutItsContent: status and fields are those of GET (RFC 9110).
func TestHeadIsGetWithoutItsContent(t *testing.T) {
	edge := newEdge(t)
	rehearsed(t, edge)
	for _, target := range []string{
		edgeLocation + "/policies", edgeLocation + "/policies/web", edgeLocation + "/policies/web?" + altForms[0],
		edgeLocation + "/policies/none", edgeLocation + "/policies?pageSize=-1", edgeLocation + "/operations", "/openapi.json", "/v1/nothing",
		edgeLocation + "/policies/web:undelete",
	} {
		get, head := ask(t, edge, "GET", target, ""), askHead(t, edge, target)
		if head.status != get.status || head.header.Get("Content-Type") != get.header.Get("Content-Type") ||
			head.header.Get("Allow") != get.header.Get("Allow") || head.text != "" {
			t.Errorf("HEAD %s: %d %v %q, GET is %d %v", target, head.status, head.header, head.text, get.status, get.header)
		}
	}
	if a := ask(t, edge, "POST", edgeLocation+"/policies/web", `{}`); a.header.Get("Allow") != "DELETE, GET, HEAD, PATCH" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
}

func askHead(t *testing.T, edge *httptest.Server, target string) edgeResponse {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, edge.URL+strings.Replace(target, "$", "%24", 1), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return exchange(t, edge, r)
}
