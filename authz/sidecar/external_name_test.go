package sidecar_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/extservice"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

func withCancel(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// noNames is a configuration without a DNS server.
func noNames(c *extservice.Config) {
	c.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no DNS server")
	}}
}

// nameServer is a real DNS server that resolves every name to the present address.
type nameServer struct {
	conn    net.PacketConn
	address atomic.Pointer[netip.Addr]
}

func newNameServer(t testing.TB) *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	done := make(chan struct{})
	go func() { defer close(done); s.serve() }()
	t.Cleanup(func() { _ = conn.Close(); testkit.Closed(t, "the connection to end", done) })
	return s
}

func (s *nameServer) resolveTo(address string) {
	a := netip.MustParseAddr(address)
	s.address.Store(&a)
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = s.conn.WriteTo(s.answer(buffer[:n]), from)
	}
}

// answer makes the response to a query of one question (RFC 1035).
func (s *nameServer) answer(query []byte) []byte {
	const header = 12
	end := header
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	question := query[header : end+5] // with its root, type and class
	kind := binary.BigEndian.Uint16(query[end+1:])
	address := *s.address.Load()
	record := []byte{0xc0, header} // the name of the question
	switch {
	case kind == 1 && address.Is4():
		record = append(record, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	case kind == 28 && address.Is6():
		record = append(record, 0, 28, 0, 1, 0, 0, 0, 0, 0, 16)
	default:
		record = nil
	}
	out := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if record != nil {
		out[7] = 1 // one answer
		out = append(append(out, record...), address.AsSlice()...)
	}
	return out
}

// TestANameThatTurnsToThisMachine resolves the name of a service to an address that is
// allowed, then to those that are not (DNS rebinding).
func TestANameThatTurnsToThisMachine(t *testing.T) {
	t.Parallel()
	names := newNameServer(t)
	service := newService(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(204)
	})
	_, port, err := net.SplitHostPort(service.authority())
	if err != nil {
		t.Fatal(err)
	}
	m := newMeter()
	s, _ := deciding(t, rules("", serviceRule("http://usage.example.com:"+port, false)), func(c *sidecar.Config) {
		c.Meters = m
		c.External.Resolver = names.resolver()
		c.External.AllowAddresses = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	ask := func() authz.Effect { return s.Check(t.Context(), lease(creation, time.Hour)).Effect }
	names.resolveTo("127.0.0.1")
	if ask() != authz.Allow {
		t.Fatal("the allowed address is not called")
	}
	turns := []string{
		"127.0.0.2", "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::1", "::", "::ffff:127.0.0.2",
		"::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "ff02::1", "64:ff9b::7f00:2", "2002:7f00:2::",
	}
	for _, turn := range turns {
		names.resolveTo(turn)
		if ask() != authz.Deny {
			t.Errorf("%s is called", turn)
		}
	}
	if got := m.count(t, "understudy.external.calls", label("outcome", "address_refused")); got != int64(len(turns)) {
		t.Errorf("%d calls were refused for the address, want %d", got, len(turns))
	}
	if n := len(service.calls()); n != 1 {
		t.Errorf("the service was called %d times, want 1", n)
	}
}

// TestAHostThatMayBeOnThisMachine allows by name.
func TestAHostThatMayBeOnThisMachine(t *testing.T) {
	t.Parallel()
	names, service := newNameServer(t), newService(t, nil)
	_, port, err := net.SplitHostPort(service.authority())
	if err != nil {
		t.Fatal(err)
	}
	allowed := func(c *sidecar.Config) {
		c.External.Resolver = names.resolver()
		c.External.AllowAddresses, c.External.AllowHosts = nil, []string{"Usage.Example.com."}
	}
	names.resolveTo("127.0.0.1")
	for host, want := range map[string]authz.Effect{
		"usage.example.com": authz.Allow, "USAGE.example.com.": authz.Allow, "other.example.com": authz.Deny,
	} {
		s, _ := deciding(t, rules("", serviceRule("http://"+host+":"+port, false)), allowed)
		if got := s.Check(t.Context(), lease(creation, time.Hour)).Effect; got != want {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
}
