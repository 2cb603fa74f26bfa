package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
)

// stock is what one would write in an afternoon: the whole request becomes JSON, a
// prepared query of OPA decides, with its defaults. It shares no code with understudy,
// and so also is the independent opinion in the agreement check (fleet.agree).
type stock struct {
	authv3.UnimplementedAuthorizationServer
	query rego.PreparedEvalQuery
}

// newStock reads a policySpec from a file.
func newStock(ctx context.Context, file string) (*stock, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var p policySpec
	if err := json.Unmarshal(content, &p); err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	options := []func(*rego.Rego){rego.Query("data.envoy.authz.allow"), rego.Store(inmem.NewFromObject(p.Data))}
	for name, text := range p.modules() {
		options = append(options, rego.Module(name, text))
	}
	query, err := rego.New(options...).PrepareForEval(ctx)
	if err != nil {
		return nil, fmt.Errorf("compiling the policy: %w", err)
	}
	return &stock{query: query}, nil
}

// Check evaluates the policy. An error becomes a gRPC error, which the generator counts
// as one.
func (s *stock) Check(ctx context.Context, request *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	input, err := inputOf(request)
	if err != nil {
		return nil, err
	}
	results, err := s.query.Eval(ctx, rego.EvalInput(input))
	if err != nil {
		return nil, err
	}
	// No result is an undefined rule: a denial, as in opa-envoy-plugin.
	if len(results) == 0 {
		return denied(nil), nil
	}
	switch value := results[0].Expressions[0].Value.(type) {
	case bool:
		if value {
			return &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(codes.OK)}}, nil
		}
	case map[string]any:
		if value["allowed"] == true {
			return &authv3.CheckResponse{
				Status:       &rpcstatus.Status{Code: int32(codes.OK)},
				HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{Headers: headersOf(value)}},
			}, nil
		}
		return denied(value), nil
	}
	return denied(nil), nil
}

// inputOf makes the input document with the fields that opa-envoy-plugin has, as far as
// the policies read them: protojson of the request, the parsed path, query and body.
func inputOf(request *authv3.CheckRequest) (map[string]any, error) {
	document, err := protojson.Marshal(request)
	if err != nil {
		return nil, err
	}
	var input map[string]any
	if err := json.Unmarshal(document, &input); err != nil {
		return nil, err
	}
	http := request.GetAttributes().GetRequest().GetHttp()
	path, query, _ := strings.Cut(http.GetPath(), "?")
	if path, err = url.PathUnescape(path); err != nil {
		return nil, err
	}
	input["parsed_path"] = strings.Split(strings.TrimLeft(path, "/"), "/")
	if input["parsed_query"], err = url.ParseQuery(query); err != nil {
		return nil, err
	}
	if strings.HasPrefix(http.GetHeaders()["content-type"], "application/json") {
		var body any
		if err := json.Unmarshal([]byte(http.GetBody()), &body); err != nil {
			return nil, err
		}
		input["parsed_body"] = body
	}
	input["source_principal"] = request.GetAttributes().GetSource().GetPrincipal()
	return input, nil
}

// denied makes a denial from the object of a rule, or a bare one from nil. An object's
// status is 403 unless it has http_status.
func denied(result map[string]any) *authv3.CheckResponse {
	response := &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(codes.PermissionDenied)}}
	if result == nil {
		return response
	}
	denial := &authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode_Forbidden}, Headers: headersOf(result),
	}
	denial.Body, _ = result["body"].(string)
	if number, ok := result["http_status"].(json.Number); ok {
		code, err := number.Int64()
		if err == nil {
			denial.Status.Code = typev3.StatusCode(code)
		}
	}
	response.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: denial}
	return response
}

// headersOf takes the headers of a rule's object. Values of other types become empty,
// which would fail the agreement check.
func headersOf(result map[string]any) []*corev3.HeaderValueOption {
	headers, _ := result["headers"].(map[string]any)
	var out []*corev3.HeaderValueOption
	for name, value := range headers {
		text, _ := value.(string)
		out = append(out, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: text}})
	}
	return out
}
