package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/authentication"
)

// Describe writes an error for people: that of a call with its violations, one a
// line.
//
// The message of an API's error is a whole sentence with the fix in it (AIP-193). One violation is
// in that sentence already; only several are listed.
func Describe(err error) string {
	var own *refusal
	st, ok := status.FromError(err)
	if !ok || errors.As(err, &own) {
		return err.Error()
	}
	text := st.Message()
	// status.FromError has the text of the wrapping error in its message; errors.As finds what was
	// wrapped.
	var answer interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answer) {
		// One that is wrapped says where it is from, before what was answered.
		text = strings.Replace(err.Error(), answer.GRPCStatus().Err().Error(), answer.GRPCStatus().Message(), 1)
	}
	for _, d := range st.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok && len(bad.FieldViolations) > 1 {
			for _, v := range bad.FieldViolations {
				text += "\n  " + v.Field + ": " + v.Description
			}
		}
	}
	for _, line := range unmetOf(st) {
		text += "\n  " + line
	}
	return text
}

// unanswered turns the error of a call that reached no admin API into one that says
// what to look at. What the API answers has details, and stays as it is.
//
// gRPC's own errors say neither the address nor what to do about it.
//
// Every error of our API has an ErrorInfo (AIP-193), which is how the two are distinguished.
func (c *Client) unanswered(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || len(st.Details()) > 0 {
		return err
	}
	switch st.Code() {
	case codes.Unavailable:
		return fmt.Errorf("no answer from the admin API at %s: %s", c.addr, unreachable(st, c.addr, "--admin"))
	case codes.Unimplemented:
		return fmt.Errorf("what answers at %s is no admin API: %s; --admin names it", c.addr, causeOf(st))
	case codes.ResourceExhausted:
		// gRPC's own, of what is far above the limit of the server, or that of this command.
		return fmt.Errorf("it is too large to be sent: a policy with its data has at most 4 MiB, or what the server's --max-policy-size says, up to 64 MiB (%s)", causeOf(st))
	}
	return err
}

// explained turns the error of an API that does not know or does not let who asks into one
// that says what to do. It is made of the permission and the name alone, so it is the same
// for what is missing and for what is forbidden.
//
// A server answers PERMISSION_DENIED for what does not exist, too, to who may not see it (AIP-211).
func (c *Client) explained(ctx context.Context, err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	for _, d := range st.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		switch {
		case !ok:
		case st.Code() == codes.Unauthenticated:
			return fmt.Errorf("%s\n  %s", st.Message(), c.howToBeKnown())
		case st.Code() == codes.PermissionDenied && info.Metadata["permission"] != "":
			return fmt.Errorf("%s%s", st.Message(), c.howToBeAllowed(ctx, access.Permission(info.Metadata["permission"]), info.Metadata["resource"]))
		case info.Reason == "POLICY_DELETED":
			return &refusal{err, fmt.Sprintf("%s\n  understudy undelete %s", st.Message(), shellWord(c.short(info.Metadata["resource"])))}
		}
	}
	return err
}

// howToBeKnown says what the server was shown, and what else it can be shown.
func (c *Client) howToBeKnown() string {
	switch {
	case c.token.Found():
		return "it was shown the token of " + c.token.From + "; name another one with --token-file or UNDERSTUDY_TOKEN, or log in with `understudy login`"
	case c.transport.orEnvironment().ClientCert != "":
		return "it was shown the certificate of --client-cert; name a token with --token-file or UNDERSTUDY_TOKEN, or log in with `understudy login`"
	}
	return "name a token with --token-file or UNDERSTUDY_TOKEN, log in with `understudy login`, or show a certificate with --client-cert and --client-key"
}

// whoTime bounds asking who one is, for an error.
//
// The error is shown without it after that.
const whoTime = 2 * time.Second

// howToBeAllowed says who was refused, which roles have the permission, and the command by
// which an owner grants one.
//
// The command can be copied as it is, into the terminal of an owner.
func (c *Client) howToBeAllowed(ctx context.Context, needed access.Permission, resource string) string {
	ctx, cancel := context.WithTimeout(ctx, whoTime)
	defer cancel()
	text, member := "", "MEMBER"
	if who, err := c.WhoAmI(ctx); err == nil && who.Principal != "" {
		member = who.Principal
		text = "\n  you are " + member + "; `understudy whoami` shows what you may"
	}
	// The least powerful role first: it is the one in the command.
	roles := access.RolesWith(needed)
	if len(roles) == 0 {
		return text
	}
	var titles []string
	for _, role := range roles {
		titles = append(titles, role.Title())
	}
	grant := strings.Join([]string{"understudy iam grant", shellWord(grantedOn(resource)), shellWord(member), titles[0]}, " ")
	return text + fmt.Sprintf("\n  %s may do it; an owner grants that with\n    %s", strings.Join(titles, ", "), grant)
}

// grantedOn is the name of what a resource inherits from: its policy, else its location or its
// project. It is whole: anyone who runs the command may have another location.
//
// An experiment, a revision and an operation have no bindings of their own.
func grantedOn(resource string) string {
	segments := strings.Split(resource, "/")
	// A list over all policies, policies/-, needs the permission on the location.
	if i := slices.Index(segments, "-"); i > 0 {
		segments = segments[:i-1]
	}
	size := min(len(segments), 4)
	if len(segments) >= 6 && segments[4] == "policies" {
		size = 6
	}
	return strings.Join(segments[:size], "/")
}

// shellWord quotes what a shell would not take for one word.
//
// It is that of a POSIX shell.
func shellWord(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		plain := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !plain && !strings.ContainsRune("@%+=:,./-_#", r)
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// WhoAmI asks the server who it takes the caller for. The error is that of the API.
func (c *Client) WhoAmI(ctx context.Context) (who authentication.WhoAmI, err error) {
	err = c.askExtra(ctx, authentication.WhoAmIPath, &who, func() bool { return who.Method != "" })
	return who, err
}

// Members asks the server whom its flags name. The error is that of the API: PERMISSION_DENIED
// for who may not read the bindings of its project.
//
// They are in no API of Google's shape: the flags of a server are no resource.
func (c *Client) Members(ctx context.Context) (members authentication.Members, err error) {
	err = c.askExtra(ctx, authentication.MembersPath, &members, func() bool { return members.Owners != nil })
	return members, err
}

// askExtra asks at a path next to the API, and reads the JSON of the answer. complete reports
// whether that is an answer of such a path.
//
// A 200 alone proves nothing: a proxy that shows a login page answers so, too.
func (c *Client) askExtra(ctx context.Context, path string, into any, complete func() bool) error {
	response, caller, err := c.call(ctx, http.MethodGet, path, nil)
	var lost *url.Error
	if errors.As(err, &lost) {
		// gRPC says the same of a port that does not answer.
		return c.unanswered(status.Error(codes.Unavailable, lost.Err.Error()))
	}
	if err != nil {
		return err
	}
	defer caller.CloseIdleConnections()
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("asking %s: %w", c.addr, err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, into); err == nil && complete() {
			return nil
		}
	}
	var refused struct {
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &refused); err != nil || refused.Error.Message == "" {
		return c.noAPI(response)
	}
	if response.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%s\n  %s", refused.Error.Message, c.howToBeKnown())
	}
	return errors.New(refused.Error.Message)
}

// noAPI is the error of an answer over HTTP that no admin API gives. A port that speaks TLS
// answers 400 to who does not.
//
// Go's TLS server answers a request without TLS with that status and a text.
func (c *Client) noAPI(response *http.Response) error {
	hint := "--admin names it"
	if response.StatusCode == http.StatusBadRequest && !strings.HasPrefix(c.addr, HTTPSScheme) {
		hint = "if it speaks TLS, write https:// before the address"
	}
	return fmt.Errorf("what answers at %s is no admin API: it says %s; %s", c.addr, response.Status, hint)
}

// leftOff is the error of a wait for an operation. One that was interrupted leaves
// the operation as it is: stored.
//
// Nobody may think that an interrupt undid the change.
//
// ctx ends by an interrupt or by --timeout. Any other error is that of the call.
func leftOff(ctx context.Context, operation string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("no longer waiting; the change is stored, and sidecars go on to apply it: %s", operation)
}

// notAsked is the error of a check without an answer.
func notAsked(addr string, err error) error {
	st, _ := status.FromError(err)
	switch st.Code() {
	case codes.Unavailable:
		return fmt.Errorf("no answer from the sidecar at %s: %s", addr, unreachable(st, addr, "--addr"))
	case codes.Unimplemented:
		return fmt.Errorf("what answers at %s is no ext_authz server: --addr names the port that Envoy asks", addr)
	}
	return fmt.Errorf("asking %s: %s: %s", addr, st.Code(), st.Message())
}

// unreachable is why a server does not answer, and the fix.
func unreachable(st *status.Status, addr, flag string) string {
	cause := causeOf(st)
	switch {
	case strings.HasPrefix(cause, "dial "):
		return cause + "; start it with `understudy serve`, or name another with " + flag
	case strings.HasPrefix(addr, HTTPSScheme):
		return cause + "; --ca-cert names who signed its certificate, --client-cert and --client-key what it may ask for"
	default:
		return cause + "; if it speaks TLS, write https:// before the address"
	}
}

// causeOf is the message of a status without what gRPC wraps a network's error in.
//
// gRPC has no type for it. What has another text is shown as it is.
func causeOf(st *status.Status) string {
	text := st.Message()
	for _, wrapping := range []string{`connection error: desc = "`, "transport: ", "Error while dialing: ", "authentication handshake failed: "} {
		text = strings.TrimPrefix(text, wrapping)
	}
	return strings.TrimSuffix(text, `"`)
}
