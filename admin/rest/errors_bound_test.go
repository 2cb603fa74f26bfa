package rest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// metadataSize is what an error takes in the trailers of gRPC: the message with its
// escapes, and the status in base64.
func metadataSize(t *testing.T, err error) int {
	t.Helper()
	st := status.Convert(err)
	details, marshalErr := proto.Marshal(st.Proto())
	if marshalErr != nil {
		t.Fatal(marshalErr)
	}
	size := base64.RawStdEncoding.EncodedLen(len(details)) + len("grpc-status-details-bin") + len("grpc-message") + 2*32
	for _, c := range []byte(st.Message()) {
		if c < ' ' || c > '~' || c == '%' {
			size += 2
		}
		size++
	}
	return size
}

// TestErrorsFitIntoMetadata: however much is wrong, and however long it is, the error has
// less than the 8 KiB that gRPC's C core takes, and counts what it leaves out.
func TestErrorsFitIntoMetadata(t *testing.T) {
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	const parent = "projects/default/locations/local"
	long := strings.Repeat("é", 200_000)
	create := func(p *adminpb.Policy) error {
		_, err := server.CreatePolicy(context.Background(), &adminpb.CreatePolicyRequest{Parent: parent, PolicyId: "web", Policy: p})
		return err
	}
	list := func(r *adminpb.ListPoliciesRequest) error {
		r.Parent = parent
		_, err := server.ListPolicies(context.Background(), r)
		return err
	}
	if err := create(&adminpb.Policy{}); err != nil {
		t.Fatal(err)
	}
	update := func(mask string, p *adminpb.Policy) error {
		p.Name = parent + "/policies/web"
		_, err := server.UpdatePolicy(context.Background(), &adminpb.UpdatePolicyRequest{
			Policy: p, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{mask}},
		})
		return err
	}
	for name, err := range map[string]error{
		"rules without a filter": create(&adminpb.Policy{Rules: emptyRules()}),
		"exempted projects":      create(&adminpb.Policy{ExemptedProjects: strings.Split(strings.Repeat(long[:1000]+",", 99), ",")}),
		"annotations":            create(&adminpb.Policy{Annotations: manyAnnotations(long[:300])}),
		"modules": create(&adminpb.Policy{
			Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
			Modules: map[string]string{long[:300] + ".rego": manyMistakes()},
		}),
		"order_by":   list(&adminpb.ListPoliciesRequest{OrderBy: long}),
		"filter":     list(&adminpb.ListPoliciesRequest{Filter: `"` + long + `"`}),
		"page token": list(&adminpb.ListPoliciesRequest{PageToken: long}),
		"mask":       update(long, &adminpb.Policy{}),
		"etag":       update("display_name", &adminpb.Policy{Etag: long}),
		"name": func() error {
			_, err := server.GetPolicy(context.Background(), &adminpb.GetPolicyRequest{Name: parent + "/policies/" + long})
			return err
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			if status.Code(err) == codes.OK {
				t.Fatal("it is taken")
			}
			if size := metadataSize(t, err); size > 8<<10 {
				t.Errorf("the error has %d bytes: %.300s", size, err)
			}
			if strings.Contains(err.Error(), long[:400]) {
				t.Errorf("the error repeats what was sent: %.300s", err)
			}
		})
	}
	checkCounted(t, create(&adminpb.Policy{Rules: emptyRules()}))
}

// checkCounted checks the error of 100 empty rules: it names the first 10, and how many more
// there are.
func checkCounted(t *testing.T, err error) {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok && len(bad.FieldViolations) != 10 {
			t.Errorf("the error names %d fields, want the first 10", len(bad.FieldViolations))
		}
	}
	if !strings.Contains(err.Error(), "(and 99 more)") {
		t.Errorf("the error does not say how many there are: %v", err)
	}
}

// emptyRules are 100 rules without a filter.
func emptyRules() []*adminpb.PolicyRule {
	rules := make([]*adminpb.PolicyRule, 100)
	for i := range rules {
		rules[i] = &adminpb.PolicyRule{}
	}
	return rules
}

// manyAnnotations are 500 annotations whose keys are not valid, and long.
func manyAnnotations(text string) map[string]string {
	annotations := make(map[string]string)
	for i := range 500 {
		annotations[fmt.Sprintf("é%d%s", i, text)] = ""
	}
	return annotations
}

// manyMistakes is a module with 300 mistakes, of which each is long.
func manyMistakes() string {
	var module strings.Builder
	module.WriteString("package envoy.authz\n")
	for i := range 300 {
		fmt.Fprintf(&module, "r%d := unknown_%s_%d(1)\n", i, strings.Repeat("x", 400), i)
	}
	return module.String()
}

// TestErrorsOfRESTAreSmall, whatever was sent.
func TestErrorsOfRESTAreSmall(t *testing.T) {
	edge := newEdge(t)
	long := strings.Repeat("<x", 500_000)
	for _, c := range [][3]string{
		{"POST", "/policies?policyId=x", `{"` + long + `":1}`},
		{"POST", "/policies?policyId=x", `{"displayName":` + strings.Repeat("9", 1_000_000) + `}`},
		{"POST", "/policies?policyId=x", `{"data":{"` + long + `":` + strings.Repeat("9", 1_000_000) + `}}`},
		{"POST", "/policies?policyId=x", `{"rules":["` + long + `"]}`},
		{"POST", "/policies?policyId=x", `{"displayName":"` + long + `"`},
		{"POST", "/policies?policyId=x&" + long[:100_000] + "=1", `{}`},
		{"POST", "/policies?policyId=x&validateOnly=" + long[:100_000], `{}`},
		{"GET", "/" + long[:100_000], ""},
		{"GET", "/policies/" + long[:100_000], ""},
		{long[1:2] + strings.Repeat("Y", 100_000), "/policies", ""},
	} {
		a := ask(t, edge, c[0], edgeLocation+c[1], c[2])
		if a.status < http.StatusBadRequest || a.status >= http.StatusInternalServerError || len(a.text) > 8<<10 || a.reason == "" {
			t.Errorf("%.20s %.60s %.60s: %d with %d bytes: %.300s", c[0], c[1], c[2], a.status, len(a.text), a.text)
		}
	}
}
