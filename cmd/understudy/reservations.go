package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"

	"understudy/authz"
	"understudy/authz/reservation"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/storage"
	"understudy/cmd/understudy/tokenfile"
)

// reservationTimeout bounds how long Blazar may take to send one call whole.
const reservationTimeout = 30 * time.Second

// maxReservationHeader bounds the headers of a call, in bytes: Blazar's are few, and a
// token has at most maxTokenFile.
const maxReservationHeader = 32 << 10

// reservationAddr is where Blazar asks unless it is configured otherwise.
const reservationAddr = "127.0.0.1:9192"

// reservationConfig is the configuration of reservation checks. They are off
// without a policy.
type reservationConfig struct {
	// policy is the ID of the policy that answers; empty turns the port off.
	policy string
	// addr is host:port.
	addr string
	// basePath is what comes before v1/check-create, for a Blazar that is configured with
	// a path.
	basePath string
	// tokens are files, each with a token that Blazar may send.
	tokens []string
	// tls is as for the other ports.
	tls port.TLSFiles
	// concurrency is the calls that may be under way.
	concurrency int
}

// bind declares the flags.
func (c *reservationConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.policy, "reservation-policy", "", "the ID of the policy that answers OpenStack Blazar's reservation checks (default they are not served)")
	f.StringVar(&c.addr, "reservation-addr", reservationAddr, "where Blazar asks: host:port")
	f.StringVar(&c.basePath, "reservation-base-path", "/", "what is before v1/check-create and the other paths of reservation checks")
	f.StringSliceVar(&c.tokens, "reservation-token-file", nil, "a file with a token that Blazar may send; several for a rotation; they are read again when they change")
	f.IntVar(&c.concurrency, "reservation-concurrency", 64, "reservation checks that may be under way, and ends of leases next to them; more are answered with 429, which is a denial to Blazar")
	f.StringVar(&c.tls.Cert, "reservation-tls-cert", "", "a PEM file with the certificate chain of the port for reservation checks; it is read again when it changes")
	f.StringVar(&c.tls.Key, "reservation-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.tls.ClientCA, "reservation-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed Blazar's certificate (mTLS)")
}

// on reports whether reservations are served.
func (c *reservationConfig) on() bool { return c.policy != "" }

// check calls check with each rule and whether it is kept. served says that this process has a sidecar.
func (c *reservationConfig) check(served bool, check func(ok bool, flag, rule string)) {
	if !c.on() {
		check(len(c.tokens) == 0, "reservation-token-file", "reservation checks are served only with --reservation-policy")
		check(c.addr == reservationAddr, "reservation-addr", "reservation checks are served only with --reservation-policy")
		check(!c.tls.Given(), "reservation-tls-cert", "reservation checks are served only with --reservation-policy")
		return
	}
	check(served, "reservation-policy", "a policy decides in the sidecar: add authz to --enable")
	check(storage.IDPattern.MatchString(c.policy), "reservation-policy", "an ID has letters, digits and characters of _.:-")
	check(validAddress(c.addr), "reservation-addr", "it is host:port")
	check(strings.HasPrefix(c.basePath, "/"), "reservation-base-path", "it begins with a slash, like /blazar")
	check(c.concurrency > 0, "reservation-concurrency", "it is a number above zero, such as 64")
	check(c.tls.Complete(), "reservation-tls-cert", "it comes with --reservation-tls-key, and --reservation-tls-client-ca with both")
	check(len(c.tokens) > 0 || loopback(c.addr), "reservation-addr",
		"without a token anyone who reaches the port is answered, so it listens on a loopback address; "+
			"for another one, add --reservation-token-file")
}

// reservationPort is the port on which Blazar asks. It implements part.
type reservationPort struct {
	*server
	// authz has the sidecar that decides.
	authz *authzPort
	// handler answers. Its tokens are replaced while it runs.
	handler *reservation.Handler
	// http has handler, with the limits of the port.
	http *http.Server
	// tokens are read again as they are rotated; while they cannot be, the last ones stay.
	tokens tokenfile.Files
}

// open opens the port.
//
// Anyone who gets an answer here learns who may reserve what, so beyond this machine a token
// is required; check has seen to that.
func (p *reservationPort) open(ctx context.Context) error {
	c := p.config.reservations
	p.tokens = c.tokens
	tokens, err := p.tokens.Read()
	if err != nil {
		return command.Usage(err)
	}
	p.handler, err = reservation.New(p.authz.sidecar, reservation.Config{
		Policy: authz.PolicyID(c.policy), Tokens: tokens, BasePath: c.basePath, Concurrency: c.concurrency,
		Propagator: p.telemetry.Propagator, Tracer: p.tracer(), Logger: p.log, Meters: p.telemetry.Meters,
	})
	if err != nil {
		return err
	}
	if len(tokens) == 0 {
		p.log.Warn("anyone who reaches the port for reservation checks is answered; --reservation-token-file asks for a token", "addr", c.addr)
	}
	p.http = port.NewHTTP(p.handler, p.log)
	if err := p.secureHTTP(p.http, "reservation", c.tls); err != nil {
		return err
	}
	p.http.ReadTimeout = reservationTimeout
	p.http.MaxHeaderBytes = maxReservationHeader
	p.http.IdleTimeout = reservationTimeout
	return p.bind(ctx, "reservation", c.addr)
}

// tracer returns nil if there are no traces.
func (p *reservationPort) tracer() trace.Tracer {
	if p.telemetry.Traces == nil {
		return nil
	}
	return p.telemetry.Traces.Tracer("understudy/reservation")
}

// serve serves the port until it is drained, and follows its tokens until ctx is done.
func (p *reservationPort) serve(ctx, _ context.Context, g *lifecycle.Group) {
	g.Go("reservation", func() error { return serveHTTP(p.http, p.listeners["reservation"]) })
	g.Go("reservation tokens", func() error {
		p.tokens.Follow(ctx, p.config.tlsReload, p.log, p.handler.SetTokens)
		return nil
	})
}

// drain answers the calls under way and takes no more.
func (p *reservationPort) drain(ctx context.Context, _ *lifecycle.Group) error {
	return drainHTTP(ctx, "reservation", p.http)
}
