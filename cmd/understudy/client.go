package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

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

// newCommand makes a client command of what it does.
func newCommand(use, short, long string, args cobra.PositionalArgs, do func(*client, context.Context, []string) error) (*cobra.Command, *client) {
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

// newChange makes a client command that changes something.
func newChange(use, short, long string, args cobra.PositionalArgs, do func(*client, context.Context, []string) error) (*cobra.Command, *client) {
	cmd, c := newCommand(use, short, long, args, do)
	c.bindWait(cmd.Flags())
	return cmd, c
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
