package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	httpsScheme = "https://"
	httpScheme  = "http://"
)

// transport is how the commands reach a server: with TLS if the address begins with
// https://, else plainly. What no flag gives is taken from the environment, and is no
// mistake where there is no TLS.
type transport struct {
	caCert     string
	clientCert string
	clientKey  string
}

// bind declares the flags.
func (t *transport) bind(f *pflag.FlagSet) {
	f.StringVar(&t.caCert, "ca-cert", "", "for https://, a PEM file with who signed the server's certificate (UNDERSTUDY_CA_CERT; default the system's authorities)")
	f.StringVar(&t.clientCert, "client-cert", "", "for https://, a PEM file with the certificate to show to the server (UNDERSTUDY_CLIENT_CERT)")
	f.StringVar(&t.clientKey, "client-key", "", "its key (UNDERSTUDY_CLIENT_KEY)")
}

// dial makes a connection to host:port, a URL of that, or a socket. It is opened by
// the first call.
func (t transport) dial(addr string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	target, https := strings.CutPrefix(addr, httpsScheme)
	switch {
	case https:
		config, err := t.config()
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(config)
	case t != (transport{}):
		return nil, errors.New("certificates are for TLS: write https:// before the address, or leave them out")
	default:
		target = strings.TrimPrefix(addr, httpScheme)
	}
	return grpc.NewClient(strings.TrimSuffix(target, "/"), append(options, grpc.WithTransportCredentials(secure))...)
}

// orEnvironment fills in what no flag gives.
func (t transport) orEnvironment() transport {
	if t.caCert == "" {
		t.caCert = envOr("CA_CERT", "")
	}
	if t.clientCert == "" && t.clientKey == "" {
		t.clientCert, t.clientKey = envOr("CLIENT_CERT", ""), envOr("CLIENT_KEY", "")
	}
	return t
}

func (t transport) config() (*tls.Config, error) {
	t = t.orEnvironment()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.caCert != "" {
		content, err := readSmallFile(t.caCert)
		if err != nil {
			return nil, fmt.Errorf("--ca-cert: %w", err)
		}
		if config.RootCAs, err = certPool(content); err != nil {
			return nil, fmt.Errorf("--ca-cert %s: %w", t.caCert, err)
		}
	}
	if t.clientCert == "" && t.clientKey == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(t.clientCert, t.clientKey)
	if err != nil {
		return nil, fmt.Errorf("--client-cert and --client-key: %w; they belong together", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// http returns the origin of a server and who calls it over HTTP.
func (t transport) http(addr string) (origin string, caller *http.Client, err error) {
	host, https := strings.CutPrefix(strings.TrimSuffix(addr, "/"), httpsScheme)
	if !https {
		return httpScheme + strings.TrimPrefix(host, httpScheme), &http.Client{Transport: &http.Transport{}}, nil
	}
	config, err := t.config()
	if err != nil {
		return "", nil, err
	}
	return httpsScheme + host, &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, nil
}
