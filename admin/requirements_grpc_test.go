package admin_test

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

func init() {
	rows["E-8"] = sameErrorsOverGRPC
}

// sameErrorsOverGRPC makes the same failing calls over gRPC and over REST.
func sameErrorsOverGRPC(r *row) {
	connection, err := grpc.NewClient(strings.TrimPrefix(r.servers["s1"].URL, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = connection.Close() })
	client := adminpb.NewPolicyPreviewClient(connection)
	r.do("GET $EXP\nE = .etag")
	for _, test := range r.failingCalls(client) {
		method, target, _ := strings.Cut(test.rest, " ")
		r.callOver(method, target)
		r.answer.expected = true
		want, _ := dig(r.answer.decoded, ".error")
		object, _ := want.(map[string]any)
		delete(object, "code")
		if diff := cmp.Diff(any(object), r.overGRPC(test.call)); diff != "" {
			r.Errorf("%s (-REST +gRPC):\n%s", test.rest, diff)
		}
	}
}

// failingCall is the same call over REST and over gRPC.
type failingCall struct {
	rest string
	call func(ctx context.Context) error
}

// failingCalls are calls that fail, each in its own way.
func (r *row) failingCalls(client adminpb.PolicyPreviewClient) []failingCall {
	pol, exp, l := r.path("$pol"), r.path("$exp"), r.path("$l")
	return []failingCall{
		{"GET $L/policies/none", func(ctx context.Context) error {
			_, err := client.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l + "/policies/none"})
			return err
		}},
		{`POST $L/policies?policyId=UPPER {}`, func(ctx context.Context) error {
			_, err := client.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{Parent: l, PolicyId: "UPPER", Policy: &adminpb.Policy{}})
			return err
		}},
		{`POST $L/policies?policyId=web {}`, func(ctx context.Context) error {
			_, err := client.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{Parent: l, PolicyId: "web", Policy: &adminpb.Policy{}})
			return err
		}},
		{`POST $EXP:commit {"etag":"x"}`, func(ctx context.Context) error {
			_, err := client.CommitPolicyExperiment(ctx, &adminpb.CommitPolicyExperimentRequest{Name: exp, Etag: "x"})
			return err
		}},
		{`POST $EXP:commit {}`, func(ctx context.Context) error {
			_, err := client.CommitPolicyExperiment(ctx, &adminpb.CommitPolicyExperimentRequest{Name: exp})
			return err
		}},
		{`POST $EXP:stopPreview {}`, func(ctx context.Context) error {
			_, err := client.StopPreviewPolicyExperiment(ctx, &adminpb.StopPreviewPolicyExperimentRequest{Name: exp})
			return err
		}},
		{`POST $POL:undelete {}`, func(ctx context.Context) error {
			_, err := client.UndeletePolicy(ctx, &adminpb.UndeletePolicyRequest{Name: pol})
			return err
		}},
		{`GET $POL/experiments/none/report`, func(ctx context.Context) error {
			_, err := client.GetReport(ctx, &adminpb.GetReportRequest{Name: pol + "/experiments/none/report"})
			return err
		}},
		{`GET $EXP/report?requirements.maxFailedRatio=2`, func(ctx context.Context) error {
			_, err := client.GetReport(ctx, &adminpb.GetReportRequest{
				Name: exp + "/report", Requirements: &adminpb.CommitRequirements{MaxFailedRatio: proto.Float64(2)},
			})
			return err
		}},
		{`POST $EXP:commit {"etag":$E,"requirements":{"minRequestCount":10,"requireAllNodes":true}}`, func(ctx context.Context) error {
			_, err := client.CommitPolicyExperiment(ctx, &adminpb.CommitPolicyExperimentRequest{
				Name: exp, Etag: plain(r.lookup("E", "")),
				Requirements: &adminpb.CommitRequirements{MinRequestCount: 10, RequireAllNodes: true},
			})
			return err
		}},
	}
}

// overGRPC makes a call and returns its status in the form of the JSON envelope.
func (r *row) overGRPC(call func(ctx context.Context) error) any {
	st := status.Convert(call(r.Context()))
	details := []any{}
	for _, d := range st.Proto().Details {
		text, err := protojson.Marshal(d)
		if err != nil {
			r.Fatal(err)
		}
		var decoded any
		if err := json.Unmarshal(text, &decoded); err != nil {
			r.Fatal(err)
		}
		details = append(details, decoded)
	}
	name := code.Code(st.Code()).String()
	for _, wrong := range checkDetails(name, st.Message(), details) {
		r.Errorf("over gRPC: %s", wrong)
	}
	return map[string]any{"status": name, "message": st.Message(), "details": details}
}
