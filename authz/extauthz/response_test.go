package extauthz_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

func statusCode(code int) typev3.StatusCode { return typev3.StatusCode(code) }

// answer returns the response of a decision.
func answer(t testing.TB, d authz.Decision) *authv3.CheckResponse {
	t.Helper()
	return check(t, servertest.New(t, servertest.Constant(d)), checktest.HTTP(&authv3.AttributeContext_HttpRequest{}))
}

func fields(pairs ...string) []authz.Field {
	var out []authz.Field
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, authz.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// nested returns an object that is some levels deep.
func nested(depth int) map[string]any {
	out := map[string]any{"x": "y"}
	for range depth - 1 {
		out = map[string]any{"x": out}
	}
	return out
}

// TestUnsendable are decisions that package authz should not have made. An allow
// becomes a denial; a denial loses what it said.
func TestUnsendable(t *testing.T) {
	for name, d := range map[string]authz.Decision{
		"no name":                           {Headers: fields("", "x")},
		"line break in a name":              {Headers: fields("x\n", "x")},
		"space in a name":                   {Headers: fields("x y", "x")},
		"colon in a name":                   {Headers: fields("x:y", "x")},
		"line feed in a value":              {Headers: fields("x", "a\nb")},
		"carriage return in a value":        {Headers: fields("x", "a\rb")},
		"zero in a value":                   {Headers: fields("x", "a\x00b")},
		"value that is not UTF-8":           {Headers: fields("x", "a\xff")},
		"response header":                   {Effect: authz.Allow, ResponseHeaders: fields("x", "a\nb")},
		"pseudo-header of a response":       {Effect: authz.Allow, ResponseHeaders: fields(":status", "200")},
		"pseudo-header of a denial":         {Headers: fields(":status", "200")},
		"removed header":                    {Effect: authz.Allow, RemoveHeaders: []string{"a\nb"}},
		"removed header without a name":     {Effect: authz.Allow, RemoveHeaders: []string{""}},
		"query parameter without a name":    {Effect: authz.Allow, SetQuery: fields("", "x")},
		"removed parameter without a name":  {Effect: authz.Allow, RemoveQuery: []string{""}},
		"removed parameter, not UTF-8":      {Effect: authz.Allow, RemoveQuery: []string{"\xff"}},
		"number that is out of range":       {Effect: authz.Allow, Metadata: map[string]any{"x": json.Number("1e400")}},
		"number that is none":               {Effect: authz.Allow, Metadata: map[string]any{"x": json.Number("x")}},
		"metadata that is not JSON":         {Effect: authz.Allow, Metadata: map[string]any{"x": []any{make(chan int)}}},
		"metadata that is too deep":         {Effect: authz.Allow, Metadata: nested(31)},
		"metadata of arrays that is deeper": {Effect: authz.Allow, Metadata: map[string]any{"x": deepArray(30)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := answer(t, d)
			metadata := got.GetDynamicMetadata().AsMap()
			if got.GetStatus().GetCode() != int32(codes.PermissionDenied) || metadata["failure"] != string(authz.FailureType) || metadata["reason"] == "" {
				t.Errorf("%v, want a denial that says why", got)
			}
			if denied := got.GetDeniedResponse(); denied.GetStatus().GetCode() != 403 || len(denied.GetHeaders()) > 0 {
				t.Errorf("%v, want a bare 403", denied)
			}
		})
	}
}

func deepArray(depth int) any {
	out := any(true)
	for range depth {
		out = []any{out}
	}
	return out
}

func TestSendable(t *testing.T) {
	for name, d := range map[string]authz.Decision{
		"empty value":     {Effect: authz.Allow, Headers: fields("x", "")},
		"pseudo-header":   {Effect: authz.Allow, Headers: fields(":path", "/x")},
		"text":            {Effect: authz.Allow, Headers: fields("x", "é\tx")},
		"metadata":        {Effect: authz.Allow, Metadata: nested(30)},
		"denial's header": {Headers: fields("www-authenticate", "Bearer")},
	} {
		if got := answer(t, d); got.GetDynamicMetadata().GetFields()["failure"] != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestStatusOfDenials(t *testing.T) {
	for code, want := range map[int]typev3.StatusCode{0: 403, 401: 401, 404: 404, 429: 429, 200: 200, 999: 403, -1: 403, 418: 403, 1 << 40: 403} {
		if got := answer(t, authz.Decision{HTTPStatus: code}).GetDeniedResponse().GetStatus().GetCode(); got != want {
			t.Errorf("status %d: %d, want %d", code, got, want)
		}
	}
}

// TestResponseDepth holds the deepest metadata to what Envoy reads.
func TestResponseDepth(t *testing.T) {
	content, err := proto.Marshal(answer(t, authz.Decision{Effect: authz.Allow, Metadata: nested(30)}))
	if err != nil {
		t.Fatal(err)
	}
	if err := (proto.UnmarshalOptions{RecursionLimit: 100}).Unmarshal(content, &authv3.CheckResponse{}); err != nil {
		t.Errorf("Envoy cannot read it: %v", err)
	}
}

func FuzzResponse(f *testing.F) {
	f.Add(true, "x-user", "alice", "a b&c", "denied", `{"a": [1, null]}`, 403)
	f.Add(false, "x\r\ny", "\xff", "%", "\xff", `{"": 1e999}`, -1)
	f.Fuzz(func(t *testing.T, allow bool, name, value, query, body, metadata string, code int) {
		d := authz.Decision{
			HTTPStatus: code, Body: body, Headers: fields(name, value, name, value), ResponseHeaders: fields(name, value),
			RemoveHeaders: []string{name}, SetQuery: fields(query, value), RemoveQuery: []string{query},
		}
		if allow {
			d.Effect = authz.Allow
		}
		_ = json.Unmarshal([]byte(metadata), &d.Metadata)
		got := answer(t, d)
		if _, err := proto.Marshal(got); err != nil {
			t.Fatalf("the response does not marshal: %v", err)
		}
		headers := append(got.GetOkResponse().GetHeaders(), got.GetOkResponse().GetResponseHeadersToAdd()...)
		for _, h := range append(headers, got.GetDeniedResponse().GetHeaders()...) {
			checkHeader(t, h)
		}
		for _, q := range got.GetOkResponse().GetQueryParametersToSet() {
			if strings.ContainsAny(q.GetKey()+q.GetValue(), "&# \r\n") || strings.Contains(q.GetKey(), "=") {
				t.Errorf("query parameter %q = %q", q.GetKey(), q.GetValue())
			}
		}
	})
}

func checkHeader(t *testing.T, h *corev3.HeaderValueOption) {
	name, value := strings.TrimPrefix(h.GetHeader().GetKey(), ":"), h.GetHeader().GetValue()
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		t.Errorf("header %q: %q", name, value)
	}
}
