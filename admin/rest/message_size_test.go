package rest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin"
	"understudy/admin/content"
	"understudy/admin/rest"
	adminpb "understudy/admin/v1"
)

// newDefaultClient serves the API and connects to it as a client that sets nothing
// about sizes.
func newDefaultClient(t *testing.T) *grpc.ClientConn {
	t.Helper()
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Services: server})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewUnstartedServer(handler)
	listening.Config.Protocols = bothProtocols()
	listening.Start()
	t.Cleanup(listening.Close)
	connection, err := grpc.NewClient(listening.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// policyOfSize returns a policy whose content has this many bytes as a message.
func policyOfSize(size int) *adminpb.Policy {
	p := &adminpb.Policy{}
	fill := func(n int) int {
		p.Data = &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(strings.Repeat("x", n))}}
		return proto.Size(p)
	}
	fill(2*size - fill(size))
	return p
}

// TestTheLargestPolicyFitsADefaultClient makes the largest policy and experiment, with
// the longest names, and reads them by every method that returns them: grpc-go, as all
// libraries, receives 4 MiB unless it is configured otherwise.
func TestTheLargestPolicyFitsADefaultClient(t *testing.T) {
	connection := newDefaultClient(t)
	client, operations := adminpb.NewPolicyPreviewClient(connection), longrunningpb.NewOperationsClient(connection)
	id := strings.Repeat("i", 63)
	location := "projects/" + id + "/locations/" + strings.Repeat("l", 255)
	name := location + "/policies/" + id
	ctx := t.Context()
	create := func(size int) (*longrunningpb.Operation, error) {
		return client.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{Parent: location, PolicyId: id, Policy: policyOfSize(size)})
	}
	if _, err := create(content.DefaultPolicySize + 1); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "the limit is 4128768") {
		t.Errorf("a policy above the limit: %v", err)
	}
	operation, err := create(content.DefaultPolicySize)
	if err != nil {
		t.Fatal(err)
	}
	largest := policyOfSize(content.DefaultPolicySize)
	largest.Name = name
	if _, err := client.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
		Parent: name, PolicyExperimentId: id, PolicyExperiment: &adminpb.PolicyExperiment{Policy: largest},
	}); err != nil {
		t.Errorf("the experiment: %v", err)
	}
	if _, err := client.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
		Parent: name, PolicyExperimentId: "more", PolicyExperiment: &adminpb.PolicyExperiment{Policy: largest, DisplayName: "more"},
	}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an experiment that is larger as a whole: %v", err)
	}
	reads := readsOf(ctx, client, location, name, id)
	reads["GetOperation"] = func() error {
		_, err := operations.GetOperation(ctx, &longrunningpb.GetOperationRequest{Name: operation.Name})
		return err
	}
	reads["ListOperations"] = func() error {
		_, err := operations.ListOperations(ctx, &longrunningpb.ListOperationsRequest{Name: location})
		return err
	}
	for method, read := range reads {
		if err := read(); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// readsOf are the methods that return a policy, its experiment or its revision.
func readsOf(ctx context.Context, client adminpb.PolicyPreviewClient, location, name, id string) map[string]func() error {
	return map[string]func() error{
		"GetPolicy": func() error { _, err := client.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name}); return err },
		"ListPolicies": func() error {
			_, err := client.ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: location, View: adminpb.PolicyView_POLICY_VIEW_FULL})
			return err
		},
		"GetPolicyExperiment": func() error {
			_, err := client.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name + "/experiments/" + id})
			return err
		},
		"ListPolicyExperiments": func() error {
			_, err := client.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{Parent: name, View: adminpb.PolicyView_POLICY_VIEW_FULL})
			return err
		},
		"ListPolicyRevisions": func() error {
			_, err := client.ListPolicyRevisions(ctx, &adminpb.ListPolicyRevisionsRequest{Parent: name, View: adminpb.PolicyView_POLICY_VIEW_FULL})
			return err
		},
		"GetPolicyRevision": func() error {
			_, err := client.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: name + "/revisions/latest"})
			return err
		},
	}
}

// TestTheDocumentSaysHowLargeAPolicyMayBe: the limit stands in the prose of the API, too.
func TestTheDocumentSaysHowLargeAPolicyMayBe(t *testing.T) {
	const n = content.DefaultPolicySize
	if said := fmt.Sprintf("%d,%03d,%03d bytes", n/1_000_000, n/1000%1000, n%1000); !strings.Contains(string(adminpb.OpenAPI), said) {
		t.Errorf("the document does not say that a policy has at most %s", said)
	}
}
