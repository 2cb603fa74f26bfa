package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// checkFlags are the flags of `check`.
//
// The defaults make a request that nearly every policy can decide: GET / of localhost.
type checkFlags struct {
	checkTarget
	// file is a whole CheckRequest; the other flags make one without it.
	file, output string
	// What the caller asks for.
	method, path, host string
	// principal is whom the mesh has authenticated.
	scheme, body, principal string
	// policy is what a route chooses by a context extension.
	policy string
	// Each is one entry; they may be given more than once.
	headers, contextExtension []string
	// claimFlags make a token up.
	claimFlags
	checkExplanation
}

// checkTarget is the sidecar that is asked.
type checkTarget struct {
	addr string
	// timeout bounds the whole call, the connection included.
	timeout time.Duration
	// transport is for https:// alone.
	transport Transport
}

// dial makes the connection. With --explain the certificates of the flags may be for the admin API alone.
func (t checkTarget) dial(shared bool) (*grpc.ClientConn, error) {
	if shared && !strings.HasPrefix(t.addr, HTTPSScheme) {
		t.transport = Transport{}
	}
	return t.transport.Dial(t.addr)
}

// NewCheck makes the command that asks as Envoy does. Its exit code is another one for a
// denial than for a failure, so that scripts and CI can test a policy on a real sidecar.
//
// It asks the port that Envoy asks, and so needs no credentials of the admin API. The decision counts
// as any other: it is in metrics, in the decision log, and experiments are compared on it.
func NewCheck(explainer Explainer) *cobra.Command {
	f := checkFlags{checkExplanation: checkExplanation{explainer: explainer}}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Send one request to a sidecar and show its decision",
		Long: `Send one CheckRequest, as Envoy would, and show the decision.

The request is made of flags, or read as JSON (the JSON form of
envoy.service.auth.v3.CheckRequest) from a file, or with --file - from standard
input.

With --claims it carries a made-up token, to try a policy that reads one: roles and
groups are lists with a + between, exp, nbf and iat are numbers, all else is text, and
a JSON object has any type. It is valid for an hour, and not signed, which a policy
that verifies it refuses; --claims-key signs it with HS256.

With --explain it also says why: the expressions of the policy that decided, with file
and line. The policy is read from the admin API, and the same request is decided by it
here, so it takes the right to read policies. 'understudy explain' does so for a decision
of a log.

The exit code is 0 if the request is allowed and 3 if it is denied, also where
that cannot be explained; 1 means that there was no answer, or that the policy
could not be read for --explain.`,
		Example: `  understudy check --path /api/orders -H 'authorization: Bearer …'
  understudy check --policy web --method POST --principal spiffe://cluster.local/ns/shop/sa/web
  understudy check --path /api/reports --claims sub=alice,roles=admin
  understudy check --path /api/reports --claims sub=alice,roles=admin --explain
  understudy check --file request.json -o json`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.client.Attach(cmd)
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", command.EnvOr("AUTHZ_ADDR", "127.0.0.1:9191"), "the sidecar: host:port, https://host:port or unix:///path (UNDERSTUDY_AUTHZ_ADDR)")
	flags.StringVarP(&f.file, "file", "f", "", "a CheckRequest as JSON; - is standard input")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	flags.StringVarP(&f.method, "method", "X", "GET", "the HTTP method")
	flags.StringVar(&f.path, "path", "/", "the path, with the query")
	flags.StringVar(&f.host, "host", "localhost", "the host that is asked for")
	flags.StringVar(&f.scheme, "scheme", "http", "http or https")
	flags.StringVarP(&f.body, "body", "d", "", "the body")
	flags.StringVar(&f.principal, "principal", "", "the caller as the mesh knows it, such as a SPIFFE ID")
	flags.StringVar(&f.policy, "policy", "", "the policy that the route chooses")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "a header like 'name: value'; may be repeated")
	flags.StringVar(&f.claims, "claims", "", "make a bearer token with these claims up, such as sub=alice,roles=admin, or a JSON object")
	flags.StringVar(&f.keyFile, "claims-key", "", "a file with the secret that signs the token of --claims with HS256 (default: it is not signed)")
	flags.StringArrayVar(&f.contextExtension, "context", nil, "a context extension like key=value; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	flags.BoolVar(&f.explain, "explain", false, "say which expressions of the policy decided; needs the admin API")
	f.transport.bind(flags)
	f.client.bindAddress(flags)
	f.client.CompletePolicyFlag(cmd, "policy")
	command.CompleteOutput(cmd, "text", "json")
	return cmd
}

// run asks, prints the answer, and returns an error with the exit code of a denial if it
// is one.
//
// ctx ends with an interrupt, and after --timeout.
func (f *checkFlags) run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if !command.OneOf(f.output, "text", "json") {
		return command.Usage(errors.New("--output: it is text or json"))
	}
	request, err := f.request(stdin)
	if err != nil {
		return command.Usage(err)
	}
	conn, err := f.dial(f.explain && strings.HasPrefix(f.client.addr, HTTPSScheme))
	if err != nil {
		return command.Usage(fmt.Errorf("--addr: %w", err))
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	response, err := authv3.NewAuthorizationClient(conn).Check(ctx, request)
	if err != nil {
		return notAsked(f.addr, err)
	}
	if err := f.show(ctx, stdout, request, response); err != nil {
		return err
	}
	if codes.Code(response.GetStatus().GetCode()) != codes.OK {
		return &command.ExitError{Code: command.ExitDenied}
	}
	return nil
}

// show prints the answer, and with --explain why it is so.
func (f *checkFlags) show(ctx context.Context, w io.Writer, request *authv3.CheckRequest, response *authv3.CheckResponse) error {
	if !f.explain {
		return f.print(w, response)
	}
	if f.output != "json" {
		if err := f.print(w, response); err != nil {
			return err
		}
	}
	why, err := f.explained(ctx, request, response)
	if err != nil {
		return fmt.Errorf("--explain: %w", err)
	}
	return f.printExplained(w, response, why)
}

// request makes the CheckRequest of the flags, or reads that of the file.
//
// A file is sent as it is, also where Envoy would never send it so: it is for trying that.
func (f *checkFlags) request(stdin io.Reader) (*authv3.CheckRequest, error) {
	if f.file == "" {
		return f.build()
	}
	if f.claimFlags != (claimFlags{}) {
		return nil, errors.New("--claims makes a token for a request of flags: with --file it stands in the file")
	}
	if f.policy != "" {
		return nil, errors.New("--policy is for a request of flags: with --file it stands in the file, as attributes.contextExtensions.policy")
	}
	content, err := command.ReadFile(f.file, stdin)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	request := &authv3.CheckRequest{}
	if err := protojson.Unmarshal(content, request); err != nil {
		return nil, fmt.Errorf("--file: it is no CheckRequest: %w", err)
	}
	return request, nil
}

// build makes what Envoy would send of a request like this: the pseudo headers of HTTP/2
// are among the headers, and their names are lower case, since policies read them so.
//
// Size is that of the body. Envoy says -1 where it does not know it; a file can say that.
func (f *checkFlags) build() (*authv3.CheckRequest, error) {
	headers := map[string]string{
		":method": f.method, ":path": f.path, ":authority": f.host, ":scheme": f.scheme, "user-agent": "understudy-check",
	}
	for _, h := range f.headers {
		name, value, found := strings.Cut(h, ":")
		if !found {
			return nil, fmt.Errorf("--header %q: it is like 'name: value'", name)
		}
		// The last one of a name wins. Envoy would put a comma between them.
		headers[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	if err := f.authorize(headers); err != nil {
		return nil, err
	}
	extensions := make(map[string]string)
	for _, e := range f.contextExtension {
		key, value, found := strings.Cut(e, "=")
		if !found {
			return nil, fmt.Errorf("--context %q: it is like key=value", e)
		}
		extensions[key] = value
	}
	if f.policy != "" {
		// It is how a route chooses a policy: envoy/README.md.
		extensions["policy"] = f.policy
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Principal: f.principal},
		Request: &authv3.AttributeContext_Request{
			Time: timestamppb.Now(),
			Http: &authv3.AttributeContext_HttpRequest{
				Id: "check", Method: f.method, Path: f.path, Host: f.host, Scheme: f.scheme, Protocol: "HTTP/1.1",
				Headers: headers, Body: f.body, Size: int64(len(f.body)),
			},
		},
		ContextExtensions: extensions,
	}}, nil
}

// authorize adds the token of --claims to the headers.
func (f *checkFlags) authorize(headers map[string]string) error {
	const name = "authorization"
	value, err := f.authorization(time.Now())
	if err != nil || value == "" {
		return err
	}
	if _, has := headers[name]; has {
		return errors.New("--claims makes the header authorization, which --header has as well: leave out one of them")
	}
	headers[name] = value
	return nil
}

// print shows an answer. What a policy returns is written with quotes or as JSON: it may
// be the text of anyone who asked, and must not control a terminal.
//
// With -o json it is the CheckResponse, as Envoy gets it.
func (f *checkFlags) print(w io.Writer, response *authv3.CheckResponse) error {
	if f.output == "json" {
		return terminal.WriteJSON(w, response)
	}
	colour := terminal.PaletteFor(w)
	if codes.Code(response.GetStatus().GetCode()) == codes.OK {
		fmt.Fprintln(w, colour.Green("ALLOW"))
	} else {
		fmt.Fprintln(w, colour.Red("DENY"), denialStatus(response))
	}
	for _, h := range responseHeaders(response) {
		fmt.Fprintf(w, "  %s: %s\n", h.GetHeader().GetKey(), headerValue(h))
	}
	// Quoted: it is on one line then, however long.
	if body := response.GetDeniedResponse().GetBody(); body != "" {
		fmt.Fprintf(w, "  %q\n", body)
	}
	metadata, err := json.Marshal(response.GetDynamicMetadata().AsMap())
	if err == nil && len(response.GetDynamicMetadata().GetFields()) > 0 {
		fmt.Fprintf(w, "  %s %s\n", colour.Dim("metadata"), metadata)
	}
	return nil
}

// denialStatus is what the client of Envoy would get. Envoy makes 403 of a denial without
// one.
func denialStatus(r *authv3.CheckResponse) string {
	if code := int32(r.GetDeniedResponse().GetStatus().GetCode()); code != 0 {
		return fmt.Sprint(code)
	}
	return "403"
}

// responseHeaders are those that the answer adds: to the request if it is allowed, else to
// the denial.
func responseHeaders(r *authv3.CheckResponse) []*corev3.HeaderValueOption {
	return append(r.GetOkResponse().GetHeaders(), r.GetDeniedResponse().GetHeaders()...)
}

// headerValue returns a value. Envoy knows two fields for it, one for text and one for
// bytes.
func headerValue(h *corev3.HeaderValueOption) string {
	if v := h.GetHeader().GetValue(); v != "" {
		return v
	}
	return string(h.GetHeader().GetRawValue())
}
