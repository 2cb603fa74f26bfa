package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port"
)

const (
	// HTTPSScheme before an address asks for TLS.
	HTTPSScheme = "https://"
	// httpScheme changes nothing; people copy it from a browser.
	httpScheme = "http://"
)

// Transport is how the commands reach a server: with TLS if the address begins with
// https://, else plainly. What no flag gives is taken from the environment, and is no
// mistake where there is no TLS.
//
// It has no flag that leaves the certificate of a server unverified: --ca-cert trusts one's own.
type Transport struct {
	// CACert is who signed the server's certificate; empty is the system's authorities.
	CACert string
	// ClientCert and ClientKey are what the server is shown (mTLS), both or none.
	ClientCert string
	ClientKey  string
}

// bind declares the flags.
func (t *Transport) bind(f *pflag.FlagSet) {
	f.StringVar(&t.CACert, "ca-cert", "", "for https://, a PEM file with who signed the server's certificate (UNDERSTUDY_CA_CERT; default the system's authorities)")
	f.StringVar(&t.ClientCert, "client-cert", "", "for https://, a PEM file with the certificate to show to the server (UNDERSTUDY_CLIENT_CERT)")
	f.StringVar(&t.ClientKey, "client-key", "", "its key (UNDERSTUDY_CLIENT_KEY)")
}

// Dial makes a connection to host:port, a URL of that, or a socket. It is opened by
// the first call.
//
// The name in the certificate has to be that of the address. A server that is not there is no error
// yet: gRPC connects with the first call, and again after that.
func (t Transport) Dial(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	target, https := strings.CutPrefix(addr, HTTPSScheme)
	switch {
	case https:
		config, err := t.Config()
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(config)
	// Flags alone: what stands in the environment is for other commands, too.
	case t != (Transport{}):
		return nil, errors.New("certificates are for TLS: write https:// before the address, or leave them out")
	default:
		target = strings.TrimPrefix(addr, httpScheme)
	}
	return grpc.NewClient(strings.TrimSuffix(target, "/"), append(options, grpc.WithTransportCredentials(secure))...)
}

// orEnvironment fills in what no flag gives.
//
// Certificate and key are taken from one source: one of a flag with the other of a variable would
// be a pair by chance.
func (t Transport) orEnvironment() Transport {
	if t.CACert == "" {
		t.CACert = command.EnvOr("CA_CERT", "")
	}
	if t.ClientCert == "" && t.ClientKey == "" {
		t.ClientCert, t.ClientKey = command.EnvOr("CLIENT_CERT", ""), command.EnvOr("CLIENT_KEY", "")
	}
	return t
}

// Config makes the TLS of a connection. Its errors name the flag, also where the file was
// named by a variable of the environment.
func (t Transport) Config() (*tls.Config, error) {
	t = t.orEnvironment()
	authorities, err := port.Authorities(command.FlagValue{Flag: "ca-cert", Value: t.CACert})
	if err != nil {
		return nil, err
	}
	// Nil authorities are those of the system.
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	if t.ClientCert == "" && t.ClientKey == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("--client-cert and --client-key: %w; they belong together", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// http returns the origin of a server and who calls it over HTTP. Redirects are not
// followed: they would lead a token elsewhere.
func (t Transport) http(addr string) (origin string, caller *http.Client, err error) {
	// The same address as gRPC gets: both are on one port.
	host, https := strings.CutPrefix(strings.TrimSuffix(addr, "/"), HTTPSScheme)
	if !https {
		return httpScheme + strings.TrimPrefix(host, httpScheme), newCaller(nil), nil
	}
	config, err := t.Config()
	if err != nil {
		return "", nil, err
	}
	return HTTPSScheme + host, newCaller(config), nil
}

// newCaller makes a client that follows no redirects.
//
// Who calls closes its connections when the answer was read: a command makes one or two calls.
func newCaller(config *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// maxAnswer bounds an answer over HTTP that is not a policy, in bytes.
//
// What is called may be anything that listens there, and send without an end.
const maxAnswer = 1 << 20

// call sends a request over HTTP with the credentials of the client. The caller closes the
// body of the answer, and what was called with.
func (c *Client) call(ctx context.Context, method, path string, body io.Reader) (*http.Response, *http.Client, error) {
	origin, caller, err := c.transport.http(c.addr)
	if err != nil {
		return nil, nil, command.Usage(fmt.Errorf("--admin: %w", err))
	}
	request, err := http.NewRequestWithContext(ctx, method, origin+path, body)
	if err != nil {
		return nil, nil, command.Usage(fmt.Errorf("--admin: %w", err))
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token.Found() {
		// This may ask the issuer for a new one.
		token, err := c.token.Bearer(ctx)
		if err != nil {
			return nil, nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := caller.Do(request)
	return response, caller, err
}

// ConnectionFlags are the same for all commands that ask a server.
//
// The help shows them in groups of their own, behind the flags of the command.
var ConnectionFlags = []command.FlagGroup{
	{Title: "How the server is reached", Names: []string{"addr", "admin", "location", "ca-cert"}},
	{Title: "Who asks", Names: []string{"client-cert", "client-key", "token-file", "insecure-token"}},
}
