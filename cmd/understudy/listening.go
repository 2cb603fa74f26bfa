package main

import (
	"crypto/tls"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"understudy/cmd/understudy/command"
)

// bindListening declares the flags of sockets, TLS and connections.
func (c *config) bindListening(f *pflag.FlagSet) {
	f.StringVar(&c.authzSocketMode, "authz-socket-mode", "0660", "who may connect to a unix socket, as octal permissions")
	f.StringVar(&c.authzTLS.Cert, "authz-tls-cert", "", "a PEM file with the certificate chain of the ext_authz port; it is read again when it changes")
	f.StringVar(&c.authzTLS.Key, "authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.authzTLS.ClientCA, "authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed Envoy's certificate (mTLS)")
	f.StringVar(&c.httpAuthzTLS.Cert, "http-authz-tls-cert", "", "a PEM file with the certificate chain of the port for questions over HTTP; it is read again when it changes")
	f.StringVar(&c.httpAuthzTLS.Key, "http-authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.httpAuthzTLS.ClientCA, "http-authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed the proxy's certificate (mTLS)")
	f.StringVar(&c.adminTLS.Cert, "admin-tls-cert", "", "a PEM file with the certificate chain of the admin API; it is read again when it changes")
	f.StringVar(&c.adminTLS.Key, "admin-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.tlsMinVersion, "tls-min-version", "1.2", "the oldest TLS that is spoken: 1.2, which Envoy asks by unless told otherwise, or 1.3")
	f.DurationVar(&c.tlsReload, "tls-reload-interval", 5*time.Second, "how often files of certificates and tokens are looked at")
	c.connections.Bind(f)
	f.StringVar(&c.descriptorSet, "grpc-descriptor-set", "", "a file by which policies see the bodies of gRPC requests, as protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE makes it")
}

// validateListening calls check with each rule and whether it is kept.
func (c *config) validateListening(check func(ok bool, flag, rule string)) {
	_, err := parseMode(c.authzSocketMode)
	check(err == nil, "authz-socket-mode", "it is octal permissions such as 0660")
	check(c.authzTLS.Complete(), "authz-tls-cert", "it comes with --authz-tls-key, and --authz-tls-client-ca with both")
	check(c.httpAuthzTLS.Complete(), "http-authz-tls-cert", "it comes with --http-authz-tls-key, and --http-authz-tls-client-ca with both")
	check(c.adminTLS.Complete(), "admin-tls-cert", "it comes with --admin-tls-key")
	check(command.OneOf(c.tlsMinVersion, "1.2", "1.3"), "tls-min-version", "it is 1.2 or 1.3")
	check(c.tlsReload > 0, "tls-reload-interval", "it is a duration above zero, such as 5s")
	c.connections.Validate(check)
}

// parseMode reads the permissions of a socket.
func parseMode(octal string) (os.FileMode, error) {
	mode, err := strconv.ParseUint(octal, 8, 9)
	return os.FileMode(mode), err
}

// minimumTLS is the version of crypto/tls. Without a value it is 1.2.
func (c *config) minimumTLS() uint16 {
	if c.tlsMinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// restHosts are the names by which the admin API may be asked; nil is any. Pages in a
// browser of this machine can reach a loopback address; what is before another one
// asks who comes.
func (c *config) restHosts() []string {
	if !loopback(c.adminAddr) {
		return nil
	}
	hosts := []string{}
	for _, name := range c.adminHosts {
		hosts = append(hosts, strings.ToLower(name))
	}
	return hosts
}

func validAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port != ""
}

// loopback reports whether an address can be reached from this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
