package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	adminpb "understudy/admin/v1"
)

// client is a connection to the admin API, with the flags that its commands share.
type client struct {
	addr      string
	location  string
	output    string
	wait      bool
	transport transport

	conn       *grpc.ClientConn
	policies   adminpb.PolicyPreviewClient
	operations longrunningpb.OperationsClient
	in         io.Reader
	out, err   io.Writer
}

// bind declares the flags of every client command.
func (c *client) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	c.bindConnection(f)
	f.StringVarP(&c.output, "output", "o", "text", "text or json")
	completeOutput(cmd, "text", "json")
}

// bindConnection declares those that say where the API is and how it is used.
func (c *client) bindConnection(f *pflag.FlagSet) {
	f.StringVar(&c.addr, "admin", envOr("ADMIN_ADDR", "127.0.0.1:8181"), "the admin API: host:port or https://host:port (UNDERSTUDY_ADMIN_ADDR)")
	f.StringVar(&c.location, "location", envOr("LOCATION", "projects/default/locations/local"), "the location of short names (UNDERSTUDY_LOCATION)")
	c.transport.bind(f)
}

// bindWait declares the flag of the commands that change something.
func (c *client) bindWait(f *pflag.FlagSet) {
	f.BoolVar(&c.wait, "wait", true, "wait until every sidecar has applied the change")
}

// command makes a client command of what it does.
func command(use, short, long string, args cobra.PositionalArgs, do func(*client, context.Context, []string) error) (*cobra.Command, *client) {
	c := &client{}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + long, Args: usageArgs(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.in, c.out, c.err = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			if !oneOf(c.output, "text", "json") {
				return usage(errors.New("--output: it is text or json"))
			}
			if err := c.connect(); err != nil {
				return usage(err)
			}
			defer func() { _ = c.conn.Close() }()
			return c.unanswered(do(c, cmd.Context(), args))
		},
	}
	cmd.ValidArgsFunction = c.completion(use)
	c.bind(cmd)
	return cmd, c
}

// changing makes a client command that changes something.
func changing(use, short, long string, args cobra.PositionalArgs, do func(*client, context.Context, []string) error) (*cobra.Command, *client) {
	cmd, c := command(use, short, long, args, do)
	c.bindWait(cmd.Flags())
	return cmd, c
}

// usageArgs gives the errors of a check the exit code of a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			return usage(fmt.Errorf("the arguments do not fit: it is `%s` (see `%s --help`)", line, cmd.CommandPath()))
		}
		return nil
	}
}

// maxMessage is the largest answer that the client takes, in bytes: the largest policy
// that a server can be told to take, and what stands around it.
const maxMessage = 65 << 20

func (c *client) connect() error {
	conn, err := c.transport.dial(c.addr, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	c.conn = conn
	c.policies = adminpb.NewPolicyPreviewClient(conn)
	c.operations = longrunningpb.NewOperationsClient(conn)
	return nil
}

// name turns web or web/strict into a resource name; a whole name stays as it is.
func (c *client) name(short string) string {
	if strings.HasPrefix(short, "projects/") {
		return short
	}
	policy, experiment, isExperiment := strings.Cut(short, "/")
	name := c.location + "/policies/" + policy
	if isExperiment {
		name += "/experiments/" + strings.TrimPrefix(experiment, "experiments/")
	}
	return name
}

// experiment is name of an argument that has to be an experiment.
func (c *client) experiment(short string) (string, error) {
	if name := c.name(short); isExperiment(name) {
		return name, nil
	}
	return "", usage(fmt.Errorf("%q names no experiment: that is POLICY/EXPERIMENT, such as web/strict", short))
}

// short turns the resource name of an experiment in the client's location into the
// form that name takes.
func (c *client) short(name string) string {
	return strings.Replace(strings.TrimPrefix(name, c.location+"/policies/"), "/experiments/", "/", 1)
}

func isExperiment(name string) bool { return strings.Contains(name, "/experiments/") }

// await waits for an operation, telling of its progress, unless the user does not
// want to.
func (c *client) await(ctx context.Context, op *longrunningpb.Operation) (_ *longrunningpb.Operation, err error) {
	for c.wait && !op.Done {
		fmt.Fprintln(c.err, progressOf(op))
		name := op.Name
		if op, err = c.operations.WaitOperation(ctx, &longrunningpb.WaitOperationRequest{
			Name: op.Name, Timeout: durationpb.New(2 * time.Second),
		}); err != nil {
			return op, leftOff(ctx, name, err)
		}
	}
	if failure := op.GetError(); failure != nil {
		return op, status.FromProto(failure).Err()
	}
	return op, nil
}

// finish waits for an operation, telling of its progress, and prints its result.
func (c *client) finish(ctx context.Context, op *longrunningpb.Operation, err error) error {
	if err != nil {
		return err
	}
	if op, err = c.await(ctx, op); err != nil {
		return err
	}
	if c.output == "json" {
		return c.print(op)
	}
	if !op.Done {
		_, err = fmt.Fprintln(c.out, "stored:", op.Name)
		return err
	}
	_, err = fmt.Fprintln(c.out, summaryOf(op))
	return err
}

// commonMetadata returns what all metadata of operations have.
func commonMetadata(op *longrunningpb.Operation) *adminpb.OperationMetadata {
	m, err := op.GetMetadata().UnmarshalNew()
	if err != nil {
		return nil
	}
	if wrapped, ok := m.(interface {
		GetOperation() *adminpb.OperationMetadata
	}); ok {
		return wrapped.GetOperation()
	}
	common, _ := m.(*adminpb.OperationMetadata)
	return common
}

func progressOf(op *longrunningpb.Operation) string {
	m := commonMetadata(op)
	return fmt.Sprintf("%s of %s: %d of %d sidecars have applied it", m.GetVerb(), m.GetTarget(),
		m.GetAppliedNodeCount(), m.GetNodeCount())
}

func summaryOf(op *longrunningpb.Operation) string {
	if op.Name == "" {
		return "valid; nothing was changed"
	}
	m := commonMetadata(op)
	text := fmt.Sprintf("%s of %s is %s", m.GetVerb(), m.GetTarget(), doneOn(m.GetAppliedNodeCount()))
	response, err := op.GetResponse().UnmarshalNew()
	if err != nil {
		return text
	}
	if r, ok := response.(interface{ GetEtag() string }); ok && r.GetEtag() != "" {
		text += "; its etag is " + r.GetEtag()
	}
	if r, ok := response.(*adminpb.PromotePoliciesResponse); ok {
		text += "; live there: " + promotedOf(r)
	}
	return text
}

// doneOn says where a change is in force.
func doneOn(sidecars int32) string {
	switch sidecars {
	case 0:
		return "stored; no sidecar is live in the location"
	case 1:
		return "done on 1 sidecar"
	default:
		return fmt.Sprintf("done on %d sidecars", sidecars)
	}
}

// promotedOf names the policies of a promotion.
func promotedOf(r *adminpb.PromotePoliciesResponse) string {
	if len(r.Policies) == 0 {
		return "nothing, for there is nothing to promote"
	}
	ids := make([]string, len(r.Policies))
	for i, p := range r.Policies {
		ids[i] = lastSegment(p.Name)
	}
	return strings.Join(ids, ", ")
}

// all reads the pages of a list, each by the token of the one before.
func all[T any](list func(token string) (items []T, next string, err error)) (out []T, err error) {
	for token := ""; ; {
		items, next, err := list(token)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
		if token = next; token == "" {
			return out, nil
		}
	}
}

// unreadable names what a list had to leave out (AIP-217), once. Standard error has it,
// so that scripts see the list alone.
func (c *client) unreadable(names []string) {
	for _, name := range names {
		fmt.Fprintf(c.err, "%s is stored, but cannot be read: `understudy delete` removes it for good\n", name)
	}
}

// print prints a message as JSON.
func (c *client) print(m proto.Message) error {
	out, err := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, string(out))
	return err
}
