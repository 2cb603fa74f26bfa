package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// TestWhatChangesIsAudited: of each method the table says that it is audited, unless its name says
// that it reads; and what it says that is created is in the request.
func TestWhatChangesIsAudited(t *testing.T) {
	reading := []string{"Get", "List", "Wait", "Test", "Download"}
	for _, method := range access.Methods() {
		need, _ := access.NeedOf(method)
		service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
		reads := slices.ContainsFunc(reading, func(word string) bool { return strings.HasPrefix(name, word) })
		if need.Audited == reads {
			t.Errorf("%s: audited is %v", method, need.Audited)
		}
		if creates := strings.HasPrefix(name, "Create"); creates != (need.Creates != "") {
			t.Errorf("%s creates %q", method, need.Creates)
		}
		if _, id, creates := strings.Cut(need.Creates, "/"); creates && inputOf(t, service, name).Fields().ByName(protoreflect.Name(id)) == nil {
			t.Errorf("%s has no field %s", method, id)
		}
	}
}

// inputOf returns the type of a method's request.
func inputOf(t *testing.T, service, name string) protoreflect.MessageDescriptor {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatal(err)
	}
	return found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name)).Input()
}

// anybody is an Authenticator that finds nobody in particular.
type anybody struct{}

// Authenticate implements access.Authenticator.
func (anybody) Authenticate(*http.Request) (access.Principal, error) { return access.Principal{}, nil }

// asked is an Authorizer that notes what it is asked, and allows all that is in a location l.
type asked struct{ checks []string }

// Authorize implements access.Authorizer.
func (a *asked) Authorize(_ context.Context, p access.Permission, resource string) error {
	a.checks = append(a.checks, fmt.Sprintf("%s on %s", p, resource))
	if !strings.HasPrefix(resource, "projects/p/locations/l/") {
		return apierror.PermissionDenied(apierror.Permission(p), resource)
	}
	return nil
}

// Permitted implements access.Authorizer.
func (a *asked) Permitted(context.Context, string, []access.Permission) ([]access.Permission, error) {
	return nil, nil
}

// onePolicy is services that have one policy.
type onePolicy struct {
	adminpb.UnimplementedPolicyPreviewServer
	adminpb.UnimplementedDatasetsServer
	longrunningpb.UnimplementedOperationsServer
	policy *adminpb.Policy
}

// GetPolicy implements the service.
func (s onePolicy) GetPolicy(context.Context, *adminpb.GetPolicyRequest) (*adminpb.Policy, error) {
	return s.policy, nil
}

// TestAPermissionIsAskedOnce: what REST has asked before it read a body is not asked again, but
// holds for the same permission on the same resource alone.
func TestAPermissionIsAskedOnce(t *testing.T) {
	authorizer := &asked{}
	api, err := New(Config{Services: onePolicy{policy: &adminpb.Policy{}}, Authenticator: anybody{}, Authorizer: authorizer})
	if err != nil {
		t.Fatal(err)
	}
	const mine, other = "projects/p/locations/l/policies/mine", "projects/p/locations/m/policies/other"
	ctx, err := api.chain.authorize(t.Context(), adminpb.PolicyPreview_GetPolicy_FullMethodName, mine)
	if err != nil {
		t.Fatal(err)
	}
	client := api.Client()
	if _, err := client.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: mine}); err != nil {
		t.Errorf("what was allowed: %v", err)
	}
	if _, err := client.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: other}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another resource: got %v, want PERMISSION_DENIED", err)
	}
	if _, err := client.DeletePolicy(ctx, &adminpb.DeletePolicyRequest{Name: mine}); status.Code(err) != codes.Unimplemented {
		t.Errorf("another method: got %v, want UNIMPLEMENTED", err)
	}
	want := []string{"understudy.policies.get on " + mine, "understudy.policies.get on " + other, "understudy.policies.delete on " + mine}
	if diff := cmp.Diff(want, authorizer.checks); diff != "" {
		t.Errorf("what was asked (-want +got):\n%s", diff)
	}
}

// TestAClientGetsTheWholeAnswer: nothing of a message is lost on its way, fields that only a newer
// version knows neither.
func TestAClientGetsTheWholeAnswer(t *testing.T) {
	policy := &adminpb.Policy{
		Name: "projects/p/locations/l/policies/x", Modules: map[string]string{"a.rego": "package a"}, Rules: []*adminpb.PolicyRule{{}},
		Data: &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(1)}},
	}
	policy.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0xff, 0x01, 0x07})
	want := proto.CloneOf(policy)
	api, err := New(Config{Services: onePolicy{policy: policy}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := api.Client().GetPolicy(t.Context(), &adminpb.GetPolicyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
}
