package iam_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"understudy/admin/access"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// restCall is how REST writes a method: what stands behind the name of its resource, which
// is of one of some kinds.
type restCall struct {
	method, suffix string
	kinds          []string
}

// The kinds of resources, as the names of the table below.
const (
	project    = "project"
	location   = "location"
	policy     = "policy"
	experiment = "experiment"
	reportOf   = "report"
	acceptance = "acceptance"
	revision   = "revision"
	operation  = "operation"
	node       = "node"
	config     = "config"
	dataset    = "dataset"
	version    = "version"
)

// bindable are those that have bindings.
var bindable = []string{project, location, policy, dataset}

// calls :: method without its service → its call.
var calls = map[string]restCall{
	"GetPolicy":                    {"GET", "", []string{policy}},
	"ListPolicies":                 {"GET", "/policies", []string{location}},
	"CreatePolicy":                 {"POST", "/policies?policyId=new", []string{location}},
	"UpdatePolicy":                 {"PATCH", "", []string{policy}},
	"DeletePolicy":                 {"DELETE", "", []string{policy}},
	"UndeletePolicy":               {"POST", ":undelete", []string{policy}},
	"RollbackPolicy":               {"POST", ":rollback", []string{revision}},
	"PromotePolicies":              {"POST", "/policies:promote", []string{location}},
	"GetPolicyExperiment":          {"GET", "", []string{experiment}},
	"ListPolicyExperiments":        {"GET", "/experiments", []string{policy}},
	"CreatePolicyExperiment":       {"POST", "/experiments?policyExperimentId=new", []string{policy}},
	"UpdatePolicyExperiment":       {"PATCH", "", []string{experiment}},
	"DeletePolicyExperiment":       {"DELETE", "", []string{experiment}},
	"StartPreviewPolicyExperiment": {"POST", ":startPreview", []string{experiment}},
	"StopPreviewPolicyExperiment":  {"POST", ":stopPreview", []string{experiment}},
	"CommitPolicyExperiment":       {"POST", ":commit", []string{experiment}},
	"GetReport":                    {"GET", "", []string{reportOf}},
	"GetAcceptance":                {"GET", "", []string{acceptance}},
	"ListAcceptances":              {"GET", "/acceptances", []string{experiment}},
	"CreateAcceptance":             {"POST", "/acceptances", []string{experiment}},
	"DeleteAcceptance":             {"DELETE", "", []string{acceptance}},
	"GetPolicyRevision":            {"GET", "", []string{revision}},
	"ListPolicyRevisions":          {"GET", "/revisions", []string{policy}},
	"GetConfig":                    {"GET", "", []string{config}},
	"UpdateConfig":                 {"PATCH", "", []string{config}},
	"GetNode":                      {"GET", "", []string{node}},
	"ListNodes":                    {"GET", "/nodes", []string{location}},
	"GetDataset":                   {"GET", "", []string{dataset}},
	"ListDatasets":                 {"GET", "/datasets", []string{location}},
	"CreateDataset":                {"POST", "/datasets?datasetId=new", []string{location}},
	"UpdateDataset":                {"PATCH", "", []string{dataset}},
	"DeleteDataset":                {"DELETE", "", []string{dataset}},
	"UndeleteDataset":              {"POST", ":undelete", []string{dataset}},
	"UploadDataset":                {"POST", ":upload", []string{dataset}},
	"PatchDataset":                 {"POST", ":patch", []string{dataset}},
	"DownloadDataset":              {"GET", ":download", []string{dataset}},
	"RollbackDataset":              {"POST", ":rollback", []string{version}},
	"GetDatasetVersion":            {"GET", "", []string{version}},
	"ListDatasetVersions":          {"GET", "/versions", []string{dataset}},
	"ListOperations":               {"GET", "/operations", []string{location}},
	"GetOperation":                 {"GET", "", []string{operation}},
	"WaitOperation":                {"POST", ":wait", []string{operation}},
	"DeleteOperation":              {"DELETE", "", []string{operation}},
	"CancelOperation":              {"POST", ":cancel", []string{operation}},
	"GetIamPolicy":                 {"GET", ":getIamPolicy", bindable},
	"SetIamPolicy":                 {"POST", ":setIamPolicy", bindable},
	"TestIamPermissions":           {"POST", ":testIamPermissions", bindable},
}

// malformed is an ID that is none.
const malformed = "b d"

// names returns names of a kind: of what is there, of what is not, and one that is none.
func (s *server) names(kind string, op string) (there, missing, bad string) {
	switch kind {
	case project:
		return s.p, "projects/nobodys", "projects/" + malformed
	case location:
		return s.l, s.p + "/locations/gone", s.p + "/locations/" + malformed
	case policy:
		return s.policy, s.l + "/policies/gone", s.l + "/policies/" + malformed
	case experiment:
		return s.policy + "/experiments/e1", s.policy + "/experiments/gone", s.policy + "/experiments/" + malformed
	case reportOf:
		return s.policy + "/experiments/e1/report", s.policy + "/experiments/gone/report", s.l + "/policies/" + malformed + "/experiments/e1/report"
	case acceptance:
		return s.policy + "/experiments/e1/acceptances/a1", s.policy + "/experiments/gone/acceptances/a1",
			s.policy + "/experiments/e1/acceptances/" + malformed
	case revision:
		return s.policy + "/revisions/latest", s.policy + "/revisions/gone", s.policy + "/revisions/" + malformed
	case operation:
		return op, s.l + "/operations/gone", s.l + "/operations/" + malformed
	case dataset:
		return s.l + "/datasets/d1", s.l + "/datasets/gone", s.l + "/datasets/" + malformed
	case version:
		return s.l + "/datasets/d1/versions/1", s.l + "/datasets/d1/versions/gone", s.l + "/datasets/d1/versions/" + malformed
	case node:
		return s.l + "/nodes/n1", s.l + "/nodes/gone", s.l + "/nodes/" + malformed
	default:
		return s.l + "/config", s.p + "/locations/gone/config", s.p + "/locations/" + malformed + "/config"
	}
}

// methodsOf returns the methods of all services on the port, as gRPC writes them.
func methodsOf() map[string]protoreflect.MethodDescriptor {
	out := make(map[string]protoreflect.MethodDescriptor)
	for _, name := range []protoreflect.FullName{"understudy.admin.v1.PolicyPreview", "understudy.admin.v1.Datasets", "google.longrunning.Operations", "google.iam.v1.IAMPolicy"} {
		service, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			panic(err)
		}
		methods := service.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			out[fmt.Sprintf("/%s/%s", name, methods.Get(i).Name())] = methods.Get(i)
		}
	}
	return out
}

// The packages whose descriptors methodsOf finds.
var _, _, _ proto.Message = (*adminpb.Policy)(nil), (*longrunningpb.Operation)(nil), (*iampb.Policy)(nil)

// A method that is in no table would be refused; one that is in a table alone is a mistake.
func TestEveryMethodIsInTheTable(t *testing.T) {
	methods := methodsOf()
	for name, m := range methods {
		need, ok := access.NeedOf(name)
		if !ok {
			t.Errorf("access.NeedOf has no %s", name)
		}
		if _, ok := calls[string(m.Name())]; !ok {
			t.Errorf("the tests have no %s", name)
		}
		at := m.Input()
		for _, part := range strings.Split(need.Field, ".") {
			field := at.Fields().ByName(protoreflect.Name(part))
			if field == nil {
				t.Fatalf("%s: %s has no field %s", name, at.FullName(), need.Field)
			}
			at = field.Message()
		}
	}
	for _, name := range access.Methods() {
		if methods[name] == nil {
			t.Errorf("the services have no %s", name)
		}
	}
}

// newMethodServer is a server with everything that methods are about, and a member
// token:ROLE for each role on the project. It returns an operation, too.
func newMethodServer(t *testing.T) (*server, string) {
	s := serve(t, newStore(t), owner)
	s.createPolicy()
	op := s.must(owner, "POST", s.policy+"/experiments?policyExperimentId=e1", `{"policy":{"name":"`+s.policy+`",`+content[1:]+`}`).value["name"].(string)
	s.must(owner, "POST", s.l+"/datasets?datasetId=d1", "{}")
	s.must(owner, "POST", s.l+"/datasets/d1:upload", "{}")
	byRole := make(map[string][]string)
	for _, role := range access.Roles() {
		byRole[role.Title()] = []string{"token:" + role.Title()}
	}
	s.setBindings(s.p, byRole)
	return s, op
}

// denied is the body of a 403 (AIP-211).
func denied(p access.Permission, resource string) string {
	return fmt.Sprintf(`{"error":{"code":403,"message":"Permission '%[1]s' denied on resource '%[2]s' (or it might not exist).","status":"PERMISSION_DENIED",`+
		`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"PERMISSION_DENIED","domain":"understudy.internal",`+
		`"metadata":{"permission":"%[1]s","resource":"%[2]s"}}]}}`, p, resource)
}

// bodies are what a call may send: what is valid at most, and what is not.
var bodies = []string{"{}", "", `{"`, `{"nothing":1}`, "[]"}

// B-100, B-28, B-38, L-20: anyone who has no permission gets the same answer, byte by byte,
// whether the resource is there, is not or cannot be, and whatever the query and the body
// say. Anyone who has it gets another one.
func TestPermissionComesFirstInREST(t *testing.T) {
	s, op := newMethodServer(t)
	for name, m := range methodsOf() {
		c := calls[string(m.Name())]
		need, _ := access.NeedOf(name)
		for _, kind := range c.kinds {
			there, missing, bad := s.names(kind, op)
			p := need.On(there)
			for _, role := range append(access.Roles(), "nobody") {
				may := p == "" || role.Has(p)
				for _, resource := range []string{there, missing, bad} {
					if kind == project && resource != there {
						may = p == "" // the bindings are those of one project
					}
					s.checkREST(t, c, role.Title(), resource, p, may, resource == there)
				}
			}
		}
	}
}

// checkREST makes a call in all its forms as a role. What is there is read, but not changed.
func (s *server) checkREST(t *testing.T, c restCall, role, resource string, p access.Permission, may, there bool) {
	t.Helper()
	if may && there && c.method != http.MethodGet {
		return
	}
	path := (&url.URL{Path: resource}).EscapedPath() + c.suffix
	for _, body := range bodies {
		for _, query := range []string{"", "nothing=1", "$alt=wrong", "pageSize=-1"} {
			target := path
			if query != "" {
				target += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + query
			}
			got := s.call("token:"+role, c.method, target, body)
			switch {
			case may && (got.status == http.StatusForbidden || got.status == http.StatusUnauthorized || got.status >= 500):
				t.Errorf("%s: %s %s %s: got %d %s, want another answer", role, c.method, target, body, got.status, got.body)
			case !may && (got.status != http.StatusForbidden || strings.TrimSpace(got.body) != denied(p, resource)):
				t.Errorf("%s: %s %s %s: got %d %s, want 403 %s", role, c.method, target, body, got.status, got.body, denied(p, resource))
			}
		}
	}
}

// The same by gRPC, before the fields of the request are looked at.
func TestPermissionComesFirstInRPC(t *testing.T) {
	s, op := newMethodServer(t)
	for _, role := range append(access.Roles(), "nobody") {
		conn := s.dial("token:" + role.Title())
		for name, m := range methodsOf() {
			c := calls[string(m.Name())]
			need, _ := access.NeedOf(name)
			for _, kind := range append(slices.Clone(c.kinds), "") {
				there, missing, bad := s.names(kind, op)
				if kind == "" {
					there, missing, bad = "", "folders/f1", "projects/-/locations/-"
				}
				for _, resource := range []string{there, missing, bad} {
					p := need.On(resource)
					may := p == "" || role.Has(p)
					if kind == "" || kind == project && resource != there {
						may = p == "" // the bindings are those of one project
					}
					if may && (resource == there && c.method != http.MethodGet) {
						continue
					}
					request, response := newMessage(t, m.Input()), newMessage(t, m.Output())
					setText(request, need.Field, resource)
					err := conn.Invoke(t.Context(), name, request, response)
					want := statusText(t, apierror.PermissionDenied(apierror.Permission(p), resource))
					switch got := statusText(t, err); {
					case may && (status.Code(err) == codes.PermissionDenied || status.Code(err) == codes.Unauthenticated):
						t.Errorf("%s: %s of %q: got %v, want another answer", role.Title(), name, resource, err)
					case !may && got != want:
						t.Errorf("%s: %s of %q: got %v, want %v", role.Title(), name, resource, got, want)
					}
				}
			}
		}
	}
}

// statusText is all that an error of gRPC says.
func statusText(t *testing.T, err error) string {
	t.Helper()
	text, err := protojson.Marshal(status.Convert(err).Proto())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newMessage returns an empty message of a type.
func newMessage(t *testing.T, of protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return found.New().Interface()
}

// setText sets the field at a path.
func setText(m proto.Message, path, text string) {
	at := m.ProtoReflect()
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		at = at.Mutable(at.Descriptor().Fields().ByName(protoreflect.Name(part))).Message()
	}
	at.Set(at.Descriptor().Fields().ByName(protoreflect.Name(parts[len(parts)-1])), protoreflect.ValueOfString(text))
}

// B-101: without credentials, every call has one answer: 401 with a challenge, by REST and
// by gRPC, whatever else is wrong with it.
func TestCredentialsComeBeforeAll(t *testing.T) {
	s, op := newMethodServer(t)
	const want = `{"error":{"code":401,"message":"The request has no credentials.","status":"UNAUTHENTICATED",` +
		`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNAUTHENTICATED","domain":"understudy.internal"}]}}`
	check := func(method, target, body string) {
		got := s.call("", method, target, body)
		if got.status != http.StatusUnauthorized || strings.TrimSpace(got.body) != want || got.header.Get("WWW-Authenticate") != access.Challenge {
			t.Errorf("%s %s %s: got %d %s with the challenge %q, want 401 %s", method, target, body, got.status, got.body, got.header.Get("WWW-Authenticate"), want)
		}
	}
	conn := s.dial("")
	for name, m := range methodsOf() {
		c := calls[string(m.Name())]
		for _, kind := range c.kinds {
			there, missing, bad := s.names(kind, op)
			for _, resource := range []string{there, missing, bad} {
				for _, body := range bodies {
					check(c.method, (&url.URL{Path: resource}).EscapedPath()+c.suffix, body)
				}
			}
		}
		err := conn.Invoke(t.Context(), name, newMessage(t, m.Input()), newMessage(t, m.Output()))
		if got, want := statusText(t, err), statusText(t, apierror.Unauthenticated("The request has no credentials.")); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	check("GET", "nothing/here", "")
	check("PUT", s.policy, "{")
	check("GET", s.policy+"?$alt=wrong&nothing=1", "")
}
