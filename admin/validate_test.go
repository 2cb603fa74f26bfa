package admin_test

import (
	"context"
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// TestDataIsJSON: gRPC carries values that REST cannot say. One that was stored would
// break every answer that it is in, to all who read the list.
func TestDataIsJSON(t *testing.T) {
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	nested := func(v *structpb.Value) *structpb.Value {
		return structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
	}
	for name, tt := range map[string]struct {
		value *structpb.Value
		want  codes.Code
	}{
		"not a number": {structpb.NewNumberValue(math.NaN()), codes.InvalidArgument},
		"infinite":     {nested(structpb.NewNumberValue(math.Inf(-1))), codes.InvalidArgument},
		"of no kind":   {nested(&structpb.Value{}), codes.InvalidArgument},
		"a number":     {nested(structpb.NewNumberValue(1.5)), codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := server.CreatePolicy(context.Background(), &adminpb.CreatePolicyRequest{
				Parent: "projects/default/locations/local", PolicyId: "web", ValidateOnly: true,
				Policy: &adminpb.Policy{
					Modules: map[string]string{"web.rego": "package envoy.authz\nallow := data.x"},
					Data:    &structpb.Struct{Fields: map[string]*structpb.Value{"x": tt.value}},
					Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
				},
			})
			if got := status.Code(err); got != tt.want {
				t.Errorf("the answer is %v, want %v", err, tt.want)
			}
		})
	}
}
