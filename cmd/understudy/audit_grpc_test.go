package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	adminpb "understudy/admin/v1"
)

// invoke calls a method of gRPC, by its full name, with a request in JSON, and decodes the
// answer, unless that is nil.
func (a *auditing) invoke(token, method, request string, answer *map[string]any) error {
	a.Helper()
	conn, err := grpc.NewClient(a.bound["admin"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	service, name, _ := strings.Cut(method, "/")
	descriptor := descriptorOf(a.T, service, name)
	in, out := dynamicpb.NewMessage(descriptor.Input()), dynamicpb.NewMessage(descriptor.Output())
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		a.Fatalf("%s of %s: %v", request, method, err)
	}
	ctx := metadata.AppendToOutgoingContext(a.Context(), "authorization", "Bearer "+token, "traceparent", traceparent)
	if err := conn.Invoke(ctx, "/"+method, in, out); err != nil || answer == nil {
		return err
	}
	content, err := protojson.Marshal(out)
	if err != nil {
		a.Fatal(err)
	}
	return json.Unmarshal(content, answer)
}

// mustInvoke makes the call that a request of REST is over gRPC.
func (a *auditing) mustInvoke(rpc, method, path, body string) (answer map[string]any) {
	a.Helper()
	request := requestOf(a.T, method, path, body)
	for _, full := range changing() {
		if strings.HasSuffix(full, "/"+rpc) {
			if err := a.invoke(a.token, full, request, &answer); err != nil {
				a.Fatalf("%s of %s: %v", full, request, err)
			}
		}
	}
	return answer
}

// requestOf is the request of gRPC, in JSON, that one of REST is.
func requestOf(t *testing.T, method, target, body string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	given, fields := make(map[string]any), make(map[string]any)
	if body != "" {
		if err := json.Unmarshal([]byte(body), &given); err != nil {
			t.Fatal(err)
		}
	}
	for name := range u.Query() {
		fields[name] = u.Query().Get(name)
	}
	name, verb, custom := strings.Cut(strings.TrimPrefix(u.Path, "/v1/"), ":")
	segments := strings.Split(name, "/")
	last := len(segments) - 1
	switch {
	case custom || method == http.MethodDelete:
		field, named := "name", name
		switch verb {
		case "setIamPolicy":
			field = "resource"
		case "upload":
			given = map[string]any{"content": map[string]any{"contentType": "application/json", "data": []byte(body)}}
		case "promote":
			field, named = "parent", strings.Join(segments[:last], "/")
		}
		fields[field] = named
		maps.Copy(fields, given)
	case method == http.MethodPatch && segments[last] == "config":
		given["name"], fields["config"] = name, given
	case method == http.MethodPatch:
		given["name"], fields[bodyFields[segments[last-1]]] = name, given
	default:
		fields["parent"], fields[bodyFields[segments[last]]] = strings.Join(segments[:last], "/"), given
	}
	request, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(request)
}

// bodyFields :: collection → the field of a request that has the resource.
var bodyFields = map[string]string{"policies": "policy", "experiments": "policyExperiment", "acceptances": "acceptance", "datasets": "dataset"}

// descriptorOf finds a method.
func descriptorOf(t *testing.T, service, method string) protoreflect.MethodDescriptor {
	t.Helper()
	for _, file := range []protoreflect.FileDescriptor{
		adminpb.File_understudy_admin_v1_admin_proto, longrunningpb.File_google_longrunning_operations_proto, iampb.File_google_iam_v1_iam_policy_proto,
	} {
		for i := range file.Services().Len() {
			if s := file.Services().Get(i); string(s.FullName()) == service {
				return s.Methods().ByName(protoreflect.Name(method))
			}
		}
	}
	t.Fatalf("there is no %s/%s", service, method)
	return nil
}
