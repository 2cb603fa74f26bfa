package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// Explainer decides a CheckRequest, as JSON, by a policy, and explains that.
type Explainer func(ctx context.Context, policy *adminpb.Policy, request []byte) (*Explained, error)

// checkExplanation is what --explain needs.
type checkExplanation struct {
	explain bool
	// client reads the policy. It has the certificates of the flags for the sidecar.
	client    Client
	explainer Explainer
}

// explained explains the decision of a sidecar on a request, by the policy that the admin API has.
func (f *checkFlags) explained(ctx context.Context, request *authv3.CheckRequest, response *authv3.CheckResponse) (*Explained, error) {
	c := &f.client
	if strings.HasPrefix(c.addr, HTTPSScheme) {
		c.transport = f.transport
	}
	if err := c.Connect(); err != nil {
		return nil, command.Usage(err)
	}
	defer func() { _ = c.Conn.Close() }()
	name, err := f.policyOf(ctx, request)
	if err != nil {
		return nil, err
	}
	policy, _, err := c.PolicyOf(ctx, name, "")
	if status.Code(err) == codes.NotFound {
		return &Explained{Policy: string(name), Because: []Decisive{}, NotExplained: "there is no such policy, so this is the default decision"}, nil
	}
	if err != nil {
		return nil, err
	}
	encoded, err := protojson.Marshal(request)
	if err != nil {
		return nil, err
	}
	out, err := f.explainer(ctx, policy, encoded)
	if err != nil {
		return nil, err
	}
	out.Policy, out.Etag = string(name), policy.Etag
	if allowed := codes.Code(response.GetStatus().GetCode()) == codes.OK; out.NotExplained == "" && allowed != (out.Result == authz.Allow.String()) {
		out.Notes = append(out.Notes, "the sidecar decided otherwise: it has another version of the policy, another one decides there, or its settings differ; `understudy nodes` lists the sidecars")
	}
	return out, nil
}

// policyOf returns the policy that decides a request.
func (f *checkFlags) policyOf(ctx context.Context, request *authv3.CheckRequest) (authz.PolicyName, error) {
	if id := request.GetAttributes().GetContextExtensions()["policy"]; id != "" {
		return authz.Location(f.client.location).Policy(authz.PolicyID(id)), nil
	}
	return f.client.defaultPolicy(ctx)
}

// printExplained prints a decision with its explanation. JSON has both as fields.
func (f *checkFlags) printExplained(w io.Writer, response *authv3.CheckResponse, why *Explained) error {
	if f.output != "json" {
		fmt.Fprintln(w)
		return why.Print(w)
	}
	encoded, err := protojson.Marshal(response)
	if err != nil {
		return err
	}
	return terminal.WriteValue(w, struct {
		Response    json.RawMessage `json:"response"`
		Explanation *Explained      `json:"explanation"`
	}{encoded, why})
}
