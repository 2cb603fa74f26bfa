package extservice

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// errAddressRefused is the error of a connection to an address that a policy may not
// make the server call.
var errAddressRefused = errors.New("the address is not allowed")

const (
	// idleTimeout is below the 5 seconds after which common servers close a connection
	// that is idle: a call on one that is being closed fails.
	idleTimeout = 4 * time.Second
	// maxAnswerHeader bounds the headers of an answer, in bytes.
	maxAnswerHeader = 16 << 10
	// maxIdle bounds the connections that are kept for later calls to one host, and
	// ten times it those to all.
	maxIdle = 16
)

// newHTTPClient returns the HTTP client of a process. There is no proxy, also not
// from the environment: it would connect in our place, to addresses that we refuse.
// There is one call on a connection at a time, so that none can hold up another.
func newHTTPClient(config Config) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            config.dial,
			TLSClientConfig:        &tls.Config{RootCAs: config.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    config.Timeout,
			DisableCompression:     true,
			MaxIdleConns:           10 * maxIdle,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxAnswerHeader,
		},
	}
}

// dial connects to a host if its address may be called. That is asked after the name
// is resolved, of the address that is connected to: a name that resolves to another
// address the next time gains nothing.
func (c Config) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		Timeout:  c.Timeout,
		Resolver: c.Resolver,
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err != nil || !c.mayCall(hostName(host), to.Addr()) {
				return errAddressRefused
			}
			return nil
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// mayCall reports whether an address that a host resolved to may be called. The
// operator's list of networks comes first; then hosts by name, for services on this
// machine or link, but never the addresses of instance metadata; all else is allowed
// unless it is refused in general.
func (c Config) mayCall(host string, address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	if slices.ContainsFunc(c.AllowAddresses, func(p netip.Prefix) bool { return p.Contains(address) }) {
		return true
	}
	if slices.Contains(c.AllowHosts, host) && (address.IsLoopback() || address.IsLinkLocalUnicast()) {
		return !slices.Contains(metadataAddresses, address)
	}
	return !refused(address)
}

// metadataAddresses are those at which clouds give a machine its identity, credentials
// included.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // most clouds
	netip.MustParseAddr("169.254.170.2"),   // Amazon ECS
	netip.MustParseAddr("169.254.170.23"),  // Amazon EKS
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon EC2
	netip.MustParseAddr("fd00:ec2::23"),    // Amazon EKS
	netip.MustParseAddr("fd20:ce::254"),    // Google
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("168.63.129.16"),   // Azure
}

// refusedPrefixes are those that name no other machine.
var refusedPrefixes = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),   // this network (RFC 1122); Linux takes it for this machine
	netip.MustParsePrefix("240.0.0.0/4"), // reserved, and the broadcast
}

// refused reports whether an address, or an IPv4 address that it stands for, is this
// machine, its link, a group or instance metadata. Private networks are not: that is
// where services are.
func refused(address netip.Addr) bool {
	return address.IsLoopback() || address.IsUnspecified() || address.IsMulticast() ||
		address.IsLinkLocalUnicast() || slices.Contains(metadataAddresses, address) ||
		slices.ContainsFunc(refusedPrefixes, func(p netip.Prefix) bool { return p.Contains(address) }) ||
		refusedWithin(address)
}

// embeddings :: prefix of IPv6 addresses that stand for an IPv4 address → at which of
// their bytes it begins.
var embeddings = map[netip.Prefix]int{
	netip.MustParsePrefix("::/96"):           12, // IPv4-compatible (RFC 4291)
	netip.MustParsePrefix("::ffff:0:0:0/96"): 12, // IPv4-translated (RFC 7915)
	netip.MustParsePrefix("64:ff9b::/96"):    12, // NAT64 (RFC 6052)
	netip.MustParsePrefix("64:ff9b:1::/48"):  12, // local NAT64 (RFC 8215), as a prefix of 96 bits
	netip.MustParsePrefix("2002::/16"):       2,  // 6to4 (RFC 3056)
}

// refusedWithin reports whether an IPv6 address stands for an IPv4 address that is
// refused.
func refusedWithin(address netip.Addr) bool {
	if !address.Is6() {
		return false
	}
	bytes := address.As16()
	for prefix, at := range embeddings {
		if prefix.Contains(address) && refused(netip.AddrFrom4([4]byte(bytes[at:at+4]))) {
			return true
		}
	}
	// Teredo (RFC 4380) has the IPv4 address inverted.
	if netip.MustParsePrefix("2001::/32").Contains(address) {
		inverted := ^binary.BigEndian.Uint32(bytes[12:])
		return refused(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, inverted))))
	}
	return false
}
