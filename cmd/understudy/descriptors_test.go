package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/command"
)

// descriptorSet writes the descriptors of the admin API, with all its imports as
// protoc and buf do it, or without.
func descriptorSet(t *testing.T, imports bool) string {
	t.Helper()
	set, seen := &descriptorpb.FileDescriptorSet{}, make(map[string]bool)
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := 0; imports && i < f.Imports().Len(); i++ {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add((&adminpb.GetPolicyRequest{}).ProtoReflect().Descriptor().ParentFile())
	content, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, content)
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "api.binpb")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPoliciesSeeGRPCBodies decides a call of the admin API by a field of its
// message; so does an experiment, in its process.
func TestPoliciesSeeGRPCBodies(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) { c.descriptorSet, c.Policy = descriptorSet(t, true), "api" })
	body := `{"rules":[{"rego":{}}],"modules":{"a.rego":"package envoy.authz\ndefault allow := false\nallow if input.parsed_body.name == \"projects/p/locations/l/policies/open\""}}`
	r.change(t, policies+"?policyId=api", body)
	experiments := policies + "/api/experiments"
	for _, step := range [][2]string{
		{"?policyExperimentId=e1", `{"policy":{"name":"projects/p1/locations/l1/policies/api",` + strings.TrimPrefix(body, "{") + "}"},
		{"/e1:startPreview", "{}"},
	} {
		r.change(t, experiments+step[0], step[1])
	}
	for name, want := range map[string]int32{"open": 0, "closed": 7} {
		message, err := proto.Marshal(&adminpb.GetPolicyRequest{Name: "projects/p/locations/l/policies/" + name})
		if err != nil {
			t.Fatal(err)
		}
		response, err := r.authz.Check(t.Context(), grpcCheck(adminpb.PolicyPreview_GetPolicy_FullMethodName, message))
		if err != nil || response.GetStatus().GetCode() != want {
			t.Errorf("%s: got %v, %v; want code %d", name, response, err, want)
		}
	}
	var answer string
	var report struct{ RequestCount, UnchangedCount string }
	testkit.Await(t, "both requests are compared", func() bool {
		_, answer = r.call(t, "admin", "GET", experiments+"/e1/report", "")
		if err := json.Unmarshal([]byte(answer), &report); err != nil {
			t.Fatal(err)
		}
		return report.RequestCount == "2"
	}, func() any { return answer })
	if report.UnchangedCount != "2" {
		t.Errorf("the experiment of the same content decides otherwise: %s", answer)
	}
}

// grpcCheck asks about a unary call, as Envoy does with pack_as_bytes.
func grpcCheck(method string, message []byte) *authv3.CheckRequest {
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	framed = append(framed, message...)
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{
		Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Path: method, Host: "api", Scheme: "https", Protocol: "HTTP/2",
			Headers: map[string]string{"content-type": "application/grpc", ":path": method, ":method": "POST"},
			RawBody: framed, Size: int64(len(framed)),
		},
	}}}
}

func TestBadDescriptorSets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"missing":         {filepath.Join(t.TempDir(), "none"), "no such file"},
		"a proto file":    {writeFile(t, []byte(`syntax = "proto3"; package x;`)), "it is no descriptor set"},
		"empty":           {writeFile(t, nil), "there is no file in it"},
		"without imports": {descriptorSet(t, false), "could not resolve import"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readGRPCBodies(c.file)
			var exit *command.ExitError
			if !errors.As(err, &exit) || exit.Code != command.ExitUsage {
				t.Fatalf("got %v, want an error of usage", err)
			}
			for _, want := range []string{"--grpc-descriptor-set", c.file, c.want, "protoc --include_imports", "buf build -o"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// FuzzDescriptorSet holds that a file of any content is read or refused.
func FuzzDescriptorSet(f *testing.F) {
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(durationpb.File_google_protobuf_duration_proto),
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(set)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		if option, err := descriptorOption(content); (option == nil) != (err != nil) {
			t.Errorf("got an option %v and error %v", option != nil, err)
		}
	})
}
