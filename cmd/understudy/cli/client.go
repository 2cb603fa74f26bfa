// Package cli has the commands that ask a running server: the admin API, the Policyfile
// API beside it, the port that Envoy asks (check), and readiness (health).
//
// A command is a function of a Client, which is a connection with the flags that all of
// them share, and with the credentials of who runs it. NewCommand makes one that reads, and newChange one that changes: what
// changes something returns an operation, and the command waits until every live sidecar
// has applied it, unless --wait=false.
//
// Standard output has the result alone, as a table or as the API's own JSON (-o json).
// Progress, notes and errors go to standard error, so that scripts need no filter. Names
// of resources can be short (web, web/strict) within --location, or whole.
//
// Errors are those of the API: it names the field, the rule and the fix. Only what gRPC
// itself says is put into other words (errors.go), since it knows no flags.
package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/credentials"
	"understudy/cmd/understudy/terminal"
)

// Client is a connection to the admin API, with the flags that its commands share.
type Client struct {
	// addr is host:port, or a URL of it.
	addr string
	// location is what short names are in.
	location string
	// Output is one of outputs: text or json, for most commands, and yaml for `import`.
	Output string
	// outputs are the forms that the command can print.
	outputs []string
	// wait says that a change has to be applied everywhere before the command ends.
	wait bool
	// creates says that the change makes what it is about: the API calls it an update, since
	// an update with allow_missing creates.
	creates     bool
	transport   Transport
	credentials credentials.Source
	// token is what Connect has read of the credentials.
	token credentials.Token

	// The connection, which Connect makes. The streams are those of the command, so that
	// tests can read them.
	Conn       *grpc.ClientConn
	policies   adminpb.PolicyPreviewClient
	operations longrunningpb.OperationsClient
	// IAM says who may do what.
	IAM      iampb.IAMPolicyClient
	In       io.Reader
	Out, Err io.Writer
}

// bind declares the flags of every client command.
func (c *Client) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	c.BindConnection(f)
	f.StringVarP(&c.Output, "output", "o", "text", alternatives(c.outputs))
	command.CompleteOutput(cmd, c.outputs...)
}

// usualAddr is where the admin API is if nobody says so.
const usualAddr = "127.0.0.1:8181"

// BindConnection declares those that say where the API is and how it is used.
func (c *Client) BindConnection(f *pflag.FlagSet) {
	f.StringVar(&c.addr, "admin", command.EnvOr("ADMIN_ADDR", usualAddr), "the admin API: host:port or https://host:port (UNDERSTUDY_ADMIN_ADDR)")
	f.StringVar(&c.location, "location", command.EnvOr("LOCATION", "projects/default/locations/local"), "the location of short names (UNDERSTUDY_LOCATION)")
	c.transport.bind(f)
	c.credentials.Bind(f)
}

// Addr is where the API is, as the user wrote it.
func (c *Client) Addr() string { return c.addr }

// MaySendToken returns an error if others could read a token on its way to the server.
func (c *Client) MaySendToken(from string) error { return c.credentials.MaySend(c.addr, from) }

// ShowToken shows the server a token in place of the one that the flags name.
func (c *Client) ShowToken(t credentials.Token) { c.token = t }

// Location is what short names are in.
func (c *Client) Location() string { return c.location }

// Attach has the client read and write what its command does.
func (c *Client) Attach(cmd *cobra.Command) {
	c.In, c.Out, c.Err = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
}

// BindWait declares the flag of the commands that change something.
func (c *Client) BindWait(f *pflag.FlagSet) {
	f.BoolVar(&c.wait, "wait", true, "wait until every sidecar has applied the change")
}

// alternatives are words of which one is chosen: "text, json or junit".
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// NewCommand makes a client command of what it does, which prints text or JSON.
//
// use, short and long are what the help shows; the first word behind the name in use
// (POLICY, EXPERIMENT or NAME) says what completes it. An error of do that says nothing of
// the server is turned into one that does.
func NewCommand(use, short, long string, args cobra.PositionalArgs, do func(*Client, context.Context, []string) error) (*cobra.Command, *Client) {
	return newCommandWith([]string{"text", "json"}, use, short, long, args, do)
}

// newCommandWith is NewCommand of one that prints other forms as well.
func newCommandWith(outputs []string, use, short, long string, args cobra.PositionalArgs, do func(*Client, context.Context, []string) error) (*cobra.Command, *Client) {
	c := &Client{outputs: outputs}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + long, Args: command.Arguments(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Attach(cmd)
			if !command.OneOf(c.Output, c.outputs...) {
				return command.Usage(fmt.Errorf("--output: it is %s", alternatives(c.outputs)))
			}
			if err := c.Connect(); err != nil {
				return command.Usage(err)
			}
			defer func() { _ = c.Conn.Close() }()
			return c.explained(cmd.Context(), c.unanswered(do(c, cmd.Context(), args)))
		},
	}
	cmd.ValidArgsFunction = c.completion(use)
	c.bind(cmd)
	return cmd, c
}

// newChange makes a client command that changes something.
//
// A change is an operation (AIP-151). It is stored when the API answers, and done when
// every live sidecar has applied it.
func newChange(use, short, long string, args cobra.PositionalArgs, do func(*Client, context.Context, []string) error) (*cobra.Command, *Client) {
	cmd, c := NewCommand(use, short, long, args, do)
	c.BindWait(cmd.Flags())
	return cmd, c
}

// maxMessage is the largest answer that the client takes, in bytes: the largest policy
// that a server can be configured to take, and what stands around it.
const maxMessage = 65 << 20

// Connect prepares the connection; the first call opens it. Its error is one of flags. The
// bounds on messages are above those of any server: what a server stores can be shown.
func (c *Client) Connect() error {
	var err error
	if c.token, err = c.credentials.Read(c.addr); err != nil {
		return err
	}
	if c.token.Warning != "" {
		fmt.Fprintln(c.Err, "warning: "+c.token.Warning)
	}
	options := []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage))}
	if c.token.Found() {
		options = append(options, grpc.WithPerRPCCredentials(c.token))
	}
	conn, err := c.transport.Dial(c.addr, options...)
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	c.Conn = conn
	c.IAM = iampb.NewIAMPolicyClient(conn)
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
func (c *Client) unreadable(names []string) {
	for _, name := range names {
		fmt.Fprintf(c.Err, "%s is stored, but cannot be read: `understudy delete` removes it for good\n", name)
	}
}

// print prints a message as JSON.
func (c *Client) print(m proto.Message) error { return terminal.WriteJSON(c.Out, m) }
