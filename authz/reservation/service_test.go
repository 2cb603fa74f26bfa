package reservation_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	adminpb "understudy/admin/v1"
	"understudy/authz/extservice"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// service is a real external service that notes what it is asked.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

// asked is one call of the service.
type asked struct {
	path, token, body string
}

// newService starts a service with an answer; nil passes everything.
func newService(t testing.TB, answer http.HandlerFunc) *service {
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // who called has gone
		}
		s.mu.Lock()
		s.asked = append(s.asked, asked{r.URL.Path, r.Header.Get("X-Auth-Token"), string(body)})
		s.mu.Unlock()
		if answer == nil {
			answer = says(204, "")
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) calls() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked{}, s.asked...)
}

// says answers with a status and a body.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// hangs answers when nobody waits any more.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// resets breaks the connection.
func resets(w http.ResponseWriter, _ *http.Request) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// writes answers with bytes that are not net/http's, and closes the connection.
func writes(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}
}

// onThisMachine lets a sidecar call services here, of which each gets the token.
func onThisMachine(c *sidecar.Config) {
	c.External.AllowAddresses = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.External.Tokens = map[string]extservice.TokenSource{"http://127.0.0.1": func() (string, error) { return "ours", nil }}
	c.External.Timeout = testkit.Patience
}

// impatient makes calls of services as short as one that hangs needs.
func impatient(c *sidecar.Config) { c.External.Timeout = 50 * time.Millisecond }

// filters returns the rules that a text such as "rego one; length 24h; usage allow" names.
// Usage is the service at the URL; without a URL it has no endpoint.
func filters(t testing.TB, text, url string) (out []*adminpb.PolicyRule) {
	t.Helper()
	for one := range strings.SplitSeq(text, "; ") {
		kind, argument, _ := strings.Cut(one, " ")
		r := &adminpb.PolicyRule{}
		switch kind {
		case "rego":
			r.Filter = &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: "m/" + argument}}
		case "length":
			f := &adminpb.MaximumReservationLengthFilter{}
			if limit, err := time.ParseDuration(argument); err == nil {
				f.ReservationMaxLength = durationpb.New(limit)
			}
			r.Filter = &adminpb.PolicyRule_MaximumReservationLength{MaximumReservationLength: f}
		case "usage":
			r.Filter = &adminpb.PolicyRule_ExternalService{ExternalService: &adminpb.ExternalServiceFilter{
				EndpointUrl: url, AllowOnError: argument == "allow",
			}}
		default:
			t.Fatalf("there is no filter %q", kind)
		}
		out = append(out, r)
	}
	return out
}
