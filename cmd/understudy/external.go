package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"understudy/authz/extservice"
	"understudy/cmd/understudy/tokenfile"
)

// externalConfig is the configuration of the external services that policies name.
type externalConfig struct {
	// tokenFiles are HOST=FILE or HOST:PORT=FILE, with http:// before what may be sent in
	// the clear.
	tokenFiles []string
	// allow are hosts and prefixes of addresses.
	allow []string
	// timeout bounds one call. It is above --decision-timeout by default, for a preview
	// may take longer than a live decision.
	timeout time.Duration
	// concurrency is the calls under way to one service. Beyond it a call fails at once:
	// requests that wait for a slow service would hold the memory of all others.
	concurrency int
	// shadowCalls lets experiments call services too. They are off by default, for a
	// service may count what it is asked.
	shadowCalls bool
}

// bind declares the flags.
func (c *externalConfig) bind(f *pflag.FlagSet) {
	f.StringSliceVar(&c.tokenFiles, "external-token-file", nil, "the token for an external service that a policy names: HOST=FILE or HOST:PORT=FILE, sent over https alone, or http://HOST=FILE; the file is read for each call")
	f.StringSliceVar(&c.allow, "external-allow", nil, "what external services may be although it is this machine or its link: a HOST, or addresses such as 127.0.0.0/8")
	f.DurationVar(&c.timeout, "external-timeout", 2*time.Second, "the longest time for one call of an external service")
	f.IntVar(&c.concurrency, "external-concurrency", 64, "calls under way to one external service; what is beyond fails at once")
	f.BoolVar(&c.shadowCalls, "external-shadow-calls", false, "call external services for experiments too, where the live policy did not ask the same")
}

// check calls check with each rule and whether it is kept.
func (c *externalConfig) check(check func(ok bool, flag, rule string)) {
	for _, entry := range c.tokenFiles {
		host, file, _ := strings.Cut(entry, "=")
		valid := validHost(strings.TrimPrefix(host, "http://")) && file != ""
		check(valid, "external-token-file", "it is HOST=FILE or HOST:PORT=FILE, with http:// before it if the token may go in the clear")
		if valid {
			_, err := tokenfile.Read(file)
			check(err == nil, "external-token-file", fmt.Sprintf("for %s: %v", host, err))
		}
	}
	for _, entry := range c.allow {
		_, ok := prefixOf(entry)
		check(ok || validHost(entry) && !strings.Contains(entry, ":"), "external-allow",
			"it is a host without a port, or addresses such as 127.0.0.0/8")
	}
	check(c.timeout > 0, "external-timeout", "it is a duration above zero, such as 2s")
	check(c.concurrency > 0, "external-concurrency", "it is a number above zero")
}

// validHost reports whether a text can be the host of a URL, with or without a port.
func validHost(text string) bool {
	return text != "" && !strings.ContainsAny(text, "/@?# \t\r\n")
}

// prefixOf returns the prefix, or the single address, that an entry of --external-allow
// is; false if it is a host's name.
func prefixOf(entry string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		return prefix.Masked(), true
	}
	if address, err := netip.ParseAddr(entry); err == nil {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), true
	}
	return netip.Prefix{}, false
}

// external returns how the sidecar calls external services.
func (s *server) external() extservice.Config {
	c := s.config.external
	out := extservice.Config{
		Tokens: make(map[string]extservice.TokenSource), Timeout: c.timeout, Concurrency: c.concurrency,
		ShadowCalls: c.shadowCalls,
	}
	for _, entry := range c.tokenFiles {
		host, file, _ := strings.Cut(entry, "=")
		out.Tokens[host] = func() (string, error) { return tokenfile.Read(file) }
	}
	for _, entry := range c.allow {
		if prefix, ok := prefixOf(entry); ok {
			out.AllowAddresses = append(out.AllowAddresses, prefix)
		} else {
			out.AllowHosts = append(out.AllowHosts, entry)
		}
	}
	if s.telemetry.Traces != nil {
		out.Tracer = s.telemetry.Traces.Tracer("understudy/authz")
	}
	return out
}
