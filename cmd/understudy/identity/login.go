package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/credentials"
	"understudy/cmd/understudy/terminal"
)

// login is the flags of `login`.
//
// Each is optional after the first login to a server, whose settings are kept.
type login struct {
	issuer, clientID, audience, caCert string
	scopes                             []string
}

// newLogin makes the command that gets a token of an OpenID Connect issuer.
//
// The device flow needs no browser on this machine, no port that a redirect leads to, and no secret
// of the client: it works in a container and over SSH.
func newLogin() *cobra.Command {
	var l login
	c := &cli.Client{}
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Log in to a server through its OpenID Connect issuer",
		Long: `It shows a code and the address of a page. Confirm the code there in a browser, on any
machine (the device authorization flow, RFC 8628). The token is kept in a file of your
own that nobody else can read, for the server of --admin alone, and is refreshed when it has
expired, if the issuer gives a refresh token. Later logins to the server need no flags.

The server is shown the ID token; the client ID is an audience of its --admin-oidc-issuer.
With --audience the issuer is asked for an access token for that audience, and the server is
shown this one.`,
		Example: `  understudy login --admin https://understudy.example.com:8181 --issuer https://login.example.com --client-id understudy
  understudy login --admin https://understudy.example.com:8181`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Attach(cmd)
			return l.run(cmd.Context(), c)
		},
	}
	c.BindConnection(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&l.issuer, "issuer", command.EnvOr("ISSUER", ""), "the URL of the issuer, one of the server's --admin-oidc-issuer (UNDERSTUDY_ISSUER; default that of the last login to the server)")
	f.StringVar(&l.clientID, "client-id", command.EnvOr("CLIENT_ID", ""), "the public client that the issuer knows this command by (UNDERSTUDY_CLIENT_ID; default that of the last login)")
	f.StringVar(&l.audience, "audience", "", "show the server an access token for this audience")
	f.StringSliceVar(&l.scopes, "scope", []string{"openid", "offline_access"}, "what the issuer is asked for; offline_access is a refresh token")
	f.StringVar(&l.caCert, "issuer-ca-cert", "", "a PEM file with who signed the issuer's certificate (default the system's authorities)")
	return cmd
}

// run logs in. Nobody is asked for a server that wants no login, and what the server does
// not take is not kept.
func (l *login) run(ctx context.Context, c *cli.Client) error {
	if err := c.MaySendToken("`understudy login`"); err != nil {
		return command.Usage(err)
	}
	settings, err := l.settings(c.Addr())
	if err != nil {
		return err
	}
	// An error is no reason to stop: a server that wants a login answers 401.
	if who, err := c.WhoAmI(ctx); err == nil && who.Principal == "" {
		return fmt.Errorf("the server at %s has no authentication: everybody who reaches it may do everything, and no login is needed", c.Addr())
	}
	// It waits until the code was confirmed, was refused or has expired, as the issuer says.
	got, err := credentials.Device(ctx, c.Addr(), settings, func(code credentials.Code) { showCode(c, code) })
	if err != nil {
		return err
	}
	// From here on the client uses the new token, to see whether the server takes it.
	c.ShowToken(got.Fresh())
	who, err := c.WhoAmI(ctx)
	if err != nil {
		return fmt.Errorf("the issuer logged you in, but the login is not kept: %w", err)
	}
	if err := got.Save(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "you are %s at %s\n", who.Principal, c.Addr())
	return err
}

// settings are those of the flags, else of the last login to the server.
//
// Settings of another issuer say nothing about this one, so all are dropped with it.
func (l *login) settings(addr string) (credentials.Settings, error) {
	s := credentials.SavedSettings(addr)
	if l.issuer != "" {
		if l.issuer != s.Issuer {
			s = credentials.Settings{}
		}
		s.Issuer = l.issuer
	}
	if l.clientID != "" {
		s.ClientID = l.clientID
	}
	if l.audience != "" {
		s.Audience = l.audience
	}
	if l.caCert != "" {
		s.CACert = l.caCert
	}
	// The flag has a default, so those of the last login are not asked for again.
	s.Scopes = l.scopes
	if s.Issuer == "" || s.ClientID == "" {
		return s, command.Usage(errors.New("the first login to a server needs --issuer and --client-id; who runs the server knows them"))
	}
	return s, nil
}

// showCode shows where to confirm a code. It is no result, so it is on standard error.
//
// Both texts come from the issuer, and must not control a terminal.
func showCode(c *cli.Client, code credentials.Code) {
	where := code.URL
	// RFC 8628, section 3.3.1: this URL has the code in it already.
	if code.URLComplete != "" {
		where = code.URLComplete
	}
	fmt.Fprintf(c.Err, "Open %s\nand confirm the code %s\n", terminal.Escape(where), terminal.Escape(code.UserCode))
}

// newLogout makes the command that drops a login.
//
// It asks no server: an issuer that is away must not keep a token on a machine.
func newLogout() *cobra.Command {
	c := &cli.Client{}
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "Drop the login to a server",
		Long: `It removes the tokens of 'understudy login' from this machine. The issuer's own session,
in a browser, stays as it is. Issuer and client ID are kept for the next login.`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			was, err := credentials.Forget(c.Addr())
			if err != nil {
				return err
			}
			text := "there was no login to " + c.Addr()
			if was {
				text = "logged out of " + c.Addr()
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	c.BindConnection(cmd.Flags())
	return cmd
}
