// Package cli has the commands that ask a running server: the admin API, the Policyfile
// API next to it, the port that Envoy asks (check), and readiness (health).
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
//
// # What a command does with its streams
//
//	standard output   the result: a table, a line, or JSON; nothing if there is none
//	standard error    progress, notes, warnings, what is asked, and the error
//	standard input    -f - and --file -, and the answer on a terminal
//
// A command that is interrupted while it waits has changed what it has changed: an operation is
// stored before it is waited for, and the error names it.
//
// # Exit codes
//
//	0   it was done, or what was asked for is so
//	1   it was not done, or is not so: the server refused, a requirement is not met
//	2   the command line or a file is wrong: nothing was sent
//	3   `check`: denied; `wait`: the time was over
//	4   `wait`: there was no answer
//
// Package command has them as constants. So a pipeline distinguishes a policy that is not good
// enough from a server that is away without reading texts.
//
// # Names
//
//	web                        a policy of --location
//	web/strict                 its experiment
//	web@425cb61005cc           its revision, by the beginning of the ID; web@latest
//	config                     the configuration of the location
//	projects/p/locations/l/…   any of them, whole
//
// Short names are resolved here and nowhere else (names.go); the server gets whole ones.
//
// # What asks a person
//
// A command that commits, promotes, or deletes what others depend on shows what it is about to do
// and asks, if standard input is a terminal. Elsewhere nobody can be asked, so a script has to say
// --yes, and for a commit what the report has to show. What was shown is what is done: the etags
// that were read go with the request, and the server refuses it if anything has changed in between.
package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
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
	// It is false without the flag, so a command that only reads never waits.
	wait bool
	// creates says that the change makes what it is about: the API calls it an update, since
	// an update with allow_missing creates.
	creates bool
	// transport and credentials are flags: how the server is reached, and as whom.
	transport   Transport
	credentials credentials.Source
	// token is what Connect has read of the credentials.
	token credentials.Token

	// The connection, which Connect makes. The streams are those of the command, so that
	// tests can read them.
	Conn       *grpc.ClientConn
	policies   adminpb.PolicyPreviewClient
	datasets   adminpb.DatasetsClient
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
	// The value is checked when the command runs: cobra has no flags with a set of values.
	f.StringVarP(&c.Output, "output", "o", "text", alternatives(c.outputs))
	command.CompleteOutput(cmd, c.outputs...)
}

// usualAddr is where the admin API is if nobody says so.
//
// It is the default of --admin-addr, of a server that is tried out on this machine.
const usualAddr = "127.0.0.1:8181"

// BindConnection declares those that say where the API is and how it is used.
func (c *Client) BindConnection(f *pflag.FlagSet) {
	c.bindAddress(f)
	c.transport.bind(f)
}

// bindAddress is BindConnection without the flags of TLS.
func (c *Client) bindAddress(f *pflag.FlagSet) {
	f.StringVar(&c.addr, "admin", command.EnvOr("ADMIN_ADDR", usualAddr), "the admin API: host:port or https://host:port (UNDERSTUDY_ADMIN_ADDR)")
	f.StringVar(&c.location, "location", command.EnvOr("LOCATION", "projects/default/locations/local"), "the location of short names (UNDERSTUDY_LOCATION)")
	c.credentials.Bind(f)
}

// Addr is where the API is, as the user wrote it.
func (c *Client) Addr() string { return c.addr }

// MaySendToken returns an error if others could read a token on its way to the server.
//
// It is asked before a login begins, so that nobody confirms a code in vain. from names what has
// the token, for the error.
func (c *Client) MaySendToken(from string) error {
	return c.credentials.MaySend(c.addr, credentials.Token{From: from})
}

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
//
// There are at least two.
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Help is what the help of a command shows.
type Help struct {
	// Use is the line of the command: the first word behind its name (POLICY, EXPERIMENT or
	// NAME) says what completes it.
	Use string
	// Short is what it does, in some words, and Long what else there is to know.
	Short, Long string
}

// NewCommand makes a client command of what it does, which prints text or JSON. An error of do
// that says nothing of the server is turned into one that does.
//
// do gets a client that is connected, and its context ends with an interrupt. The client is also
// returned, for flags that are about it.
func NewCommand(help Help, args cobra.PositionalArgs, do func(*Client, context.Context, []string) error) (*cobra.Command, *Client) {
	return newCommandWith([]string{"text", "json"}, help, args, do)
}

// newCommandWith is NewCommand of one that prints other forms as well.
//
// The first of the outputs is the default. All errors of the connection are ones of usage: it is
// opened by the first call, so only flags can be wrong here.
func newCommandWith(outputs []string, help Help, args cobra.PositionalArgs, do func(*Client, context.Context, []string) error) (*cobra.Command, *Client) {
	c := &Client{outputs: outputs}
	cmd := &cobra.Command{
		Use: help.Use, Short: help.Short, Long: help.Short + ".\n\n" + help.Long, Args: command.Arguments(args),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Attach(cmd)
			if !command.OneOf(c.Output, c.outputs...) {
				return command.Usage(fmt.Errorf("--output: it is %s", alternatives(c.outputs)))
			}
			if err := c.Connect(); err != nil {
				return command.Usage(err)
			}
			defer func() { _ = c.Conn.Close() }()
			// First what reached no API, then what the API refused: each is put into other words once.
			return c.explained(cmd.Context(), c.unanswered(do(c, cmd.Context(), args)))
		},
	}
	cmd.ValidArgsFunction = c.completion(help.Use)
	c.bind(cmd)
	return cmd, c
}

// newChange makes a client command that changes something.
//
// A change is an operation (AIP-151). It is stored when the API answers, and done when
// every live sidecar has applied it.
//
// With --wait=false it ends when the change is stored; `understudy operations` shows how far it is.
func newChange(help Help, args cobra.PositionalArgs, do func(*Client, context.Context, []string) error) (*cobra.Command, *Client) {
	cmd, c := NewCommand(help, args, do)
	c.BindWait(cmd.Flags())
	return cmd, c
}

// locationForm is the form of a location. The server checks the IDs in it.
var locationForm = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+$`)

// maxMessage is the largest answer that the client takes, in bytes: the largest policy
// that a server can be configured to take, and what stands around it.
const maxMessage = 65 << 20

// Connect prepares the connection; the first call opens it. Its error is one of flags. The
// bounds on messages are above those of any server: what a server stores can be shown.
func (c *Client) Connect() error {
	if !locationForm.MatchString(c.location) {
		return fmt.Errorf("--location %q: it is projects/PROJECT/locations/LOCATION", c.location)
	}
	var err error
	if c.token, err = c.credentials.Read(c.addr); err != nil {
		return err
	}
	if c.token.Warning != "" {
		fmt.Fprintln(c.Err, "warning: "+c.token.Warning)
	}
	// gRPC's own limit on what is received is 4 MiB, which a policy with its report is above.
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
	c.datasets = adminpb.NewDatasetsClient(conn)
	c.operations = longrunningpb.NewOperationsClient(conn)
	return nil
}

// all reads the pages of a list, each by the token of the one before.
//
// Pages have 1000 items, the most that the server gives. Others may change the list in between:
// what is there all the time is in the result once (AIP-158).
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
//
// A record that is damaged has a name and nothing else.
func (c *Client) unreadable(names []string) {
	for _, name := range names {
		fmt.Fprintf(c.Err, "%s is stored, but cannot be read: `understudy delete` removes it for good\n", name)
	}
}

// print prints a message as JSON.
func (c *Client) print(m proto.Message) error { return terminal.WriteJSON(c.Out, m) }
