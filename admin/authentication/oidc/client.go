package oidc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// maxAnswer bounds an answer of the issuer, in bytes. Large ones have 20 KiB of keys.
	maxAnswer = 1 << 20
	// answerTimeout bounds how long one of them may take.
	answerTimeout = 5 * time.Second
)

// errAnswerTooLarge is the error of reading an answer beyond maxAnswer.
var errAnswerTooLarge = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// newClient returns a client for the issuer: it takes time and answers within bounds, goes
// nowhere over plain http, and follows no redirect, which neither discovery nor keys nor
// tokens have.
func newClient(authorities *x509.CertPool) *http.Client {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: answerTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Transport:     bounded{transport},
		Timeout:       answerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// withToken returns a client that shows a token with each request, which token returns. That the
// token cannot be had is the error of the request.
func withToken(client *http.Client, token func() (string, error)) *http.Client {
	if token == nil {
		return client
	}
	authorized := *client
	authorized.Transport = bearer{client.Transport, token}
	return &authorized
}

// bearer is a transport that adds a bearer token (RFC 6750, section 2.1).
type bearer struct {
	next  http.RoundTripper
	token func() (string, error)
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := b.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(r)
}

// bounded is a transport whose answers end with an error where they become too large.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if !safe(r.URL) {
		return nil, errors.New("the issuer names an address that is not https")
	}
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{response.Body, maxAnswer}
	}
	return response, err
}

// boundedBody is a body of which left bytes may be read yet.
type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errAnswerTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// CheckURL returns what is wrong with the URL of an issuer.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("it is a URL like https://issuer.example.com, without a query")
	case safe(u):
		return nil
	}
	return errors.New("it is an https URL: over http anyone on the way could give it other keys; http is taken for a loopback address alone")
}

// safe reports whether what a URL answers is from there: over https, or from this machine.
func safe(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
