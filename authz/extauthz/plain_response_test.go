package extauthz_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"understudy/authz"
)

var plainStatusNames = typev3.StatusCode_name

// plainResponse reads what the specification says of an answer. The results are
// those of the rules that were asked; all but the last one passed.
func plainResponse(results []plainResult) *authv3.CheckResponse {
	last := results[len(results)-1]
	if !last.allowed {
		return plainDenial(last)
	}
	out := &authv3.CheckResponse{Status: &rpcstatus.Status{}, DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
	ok, headers, objects := &authv3.OkHttpResponse{}, [][2]string{}, 0
	for _, r := range results {
		if r.object == nil {
			continue
		}
		objects++
		headers = append(headers, plainPairs(r.object["headers"])...)
		for _, p := range plainPairs(r.object["response_headers_to_add"]) {
			ok.ResponseHeadersToAdd = append(ok.ResponseHeadersToAdd, plainHeader(p, false))
		}
		for _, p := range plainPairs(r.object["query_parameters_to_set"]) {
			ok.QueryParametersToSet = append(ok.QueryParametersToSet, &corev3.QueryParameter{
				Key: plainEscape(p[0], "&="), Value: plainEscape(p[1], "&"),
			})
		}
		ok.HeadersToRemove = append(ok.HeadersToRemove, plainList(r.object["request_headers_to_remove"])...)
		ok.QueryParametersToRemove = append(ok.QueryParametersToRemove, plainList(r.object["query_parameters_to_remove"])...)
		maps.Copy(out.DynamicMetadata.Fields, plainMetadata(r.object))
	}
	ok.Headers = plainReplacing(headers)
	for _, h := range ok.Headers {
		if h.AppendAction == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
			h.Append = wrapperspb.Bool(true) //nolint:staticcheck // older Envoys read nothing else
		}
	}
	if objects > 0 {
		out.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: ok}
	}
	return out
}

func plainDenial(r plainResult) *authv3.CheckResponse {
	out := &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: 7}, DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{}},
	}
	denied := &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: 403}}
	switch {
	case r.failure != "":
		out.DynamicMetadata.Fields["failure"] = structpb.NewStringValue(string(r.failure))
		if r.failure == authz.FailureRequest {
			denied.Status.Code = 400
		}
	case r.object == nil: // false
		return out
	default:
		denied.Headers = plainReplacing(plainPairs(r.object["headers"]))
		body, _ := r.object["body"].(string)
		denied.Body = strings.ToValidUTF8(body, "\uFFFD")
		if number, ok := r.object["http_status"].(json.Number); ok {
			code, _ := number.Int64()
			denied.Status.Code = typev3.StatusCode(code)
		}
		out.DynamicMetadata.Fields = plainMetadata(r.object)
	}
	out.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied}
	return out
}

// plainPairs are the names and values of an object, or of an array of objects, in
// the order of the names.
func plainPairs(value any) (out [][2]string) {
	switch v := value.(type) {
	case []any:
		for _, object := range v {
			out = append(out, plainPairs(object)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			for _, text := range plainList(v[name]) {
				out = append(out, [2]string{name, text})
			}
		}
	}
	return out
}

// plainList is an array of strings, or one string.
func plainList(value any) (out []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, text := range v {
			out = append(out, text.(string))
		}
	}
	return out
}

func plainHeader(pair [2]string, replaces bool) *corev3.HeaderValueOption {
	action := corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	if replaces {
		action = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	}
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: pair[0], Value: pair[1]}, AppendAction: action}
}

// plainReplacing: the first value of a name replaces, the further ones are added.
func plainReplacing(pairs [][2]string) (out []*corev3.HeaderValueOption) {
	for i, p := range pairs {
		first := slices.IndexFunc(pairs, func(other [2]string) bool { return strings.EqualFold(p[0], other[0]) })
		out = append(out, plainHeader(p, first == i))
	}
	return out
}

// plainEscape escapes what is not in a query (RFC 3986) or separates there.
func plainEscape(text, separators string) string {
	out := ""
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>"+separators, c) >= 0 {
			out += fmt.Sprintf("%%%02X", c)
			continue
		}
		out += string(rune(c))
	}
	return out
}

// plainEach reports whether a value is an object of strings and arrays of strings
// that are all right.
func plainEach(value any, right func(name, value string) bool) bool {
	object, ok := value.(map[string]any)
	for name, values := range object {
		list, isList := values.([]any)
		if !isList {
			list = []any{values}
		}
		for _, v := range list {
			text, isText := v.(string)
			ok = ok && isText && right(name, text)
		}
	}
	return ok
}

// plainHeaderPairs reports whether a value is headers that can be sent.
func plainHeaderPairs(value any, pseudo bool) bool {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	return !slices.ContainsFunc(list, func(v any) bool {
		return !plainEach(v, func(name, text string) bool {
			control := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
			return plainHeaderName(name, pseudo) && utf8.ValidString(text) && !strings.ContainsFunc(text, control)
		})
	})
}

// plainHeaderName is a token of RFC 9110, after a colon where pseudo-headers are.
func plainHeaderName(name string, pseudo bool) bool {
	if pseudo {
		name = strings.TrimPrefix(name, ":")
	}
	token := "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && strings.Trim(name, token) == ""
}

func plainQueryPairs(value any) bool {
	return plainEach(value, func(name, _ string) bool { return name != "" })
}

func plainTexts(value any, right func(string) bool) bool {
	list, ok := value.([]any)
	for _, v := range list {
		text, isText := v.(string)
		ok = ok && isText && right(text)
	}
	return ok
}

func plainQueryNames(value any) bool {
	return plainTexts(value, func(name string) bool { return name != "" && utf8.ValidString(name) })
}

// plainMetadataField is an object that Envoy can read.
func plainMetadataField(value any) bool {
	object, ok := value.(map[string]any)
	return ok && plainReadable(object, 1)
}

func plainReadable(value any, depth int) bool {
	switch v := value.(type) {
	case json.Number:
		_, err := v.Float64()
		return err == nil
	case []any:
		return depth <= 30 && !slices.ContainsFunc(v, func(e any) bool { return !plainReadable(e, depth+1) })
	case map[string]any:
		for _, e := range v {
			if !plainReadable(e, depth+1) {
				return false
			}
		}
		return depth <= 30
	}
	return true
}

func plainMetadata(result map[string]any) map[string]*structpb.Value {
	object, ok := result["dynamic_metadata"].(map[string]any)
	if !ok {
		return map[string]*structpb.Value{}
	}
	return plainStructOf(object).GetStructValue().GetFields()
}

func plainStructOf(value any) *structpb.Value {
	switch v := value.(type) {
	case json.Number:
		number, _ := v.Float64()
		return structpb.NewNumberValue(number)
	case string:
		return structpb.NewStringValue(strings.ToValidUTF8(v, "\uFFFD"))
	case []any:
		list := &structpb.ListValue{}
		for _, e := range v {
			list.Values = append(list.Values, plainStructOf(e))
		}
		return structpb.NewListValue(list)
	case map[string]any:
		s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for name, e := range v {
			s.Fields[strings.ToValidUTF8(name, "\uFFFD")] = plainStructOf(e)
		}
		return structpb.NewStructValue(s)
	case bool:
		return structpb.NewBoolValue(v)
	}
	return structpb.NewNullValue()
}
