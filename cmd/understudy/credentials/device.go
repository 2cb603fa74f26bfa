package credentials

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/oauth2"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/tokenfile"
)

const (
	// issuerTime bounds one call of an issuer.
	issuerTime = 30 * time.Second
	// maxDiscovery bounds the document of an issuer, in bytes.
	maxDiscovery = 1 << 20
	// longestInterval bounds the seconds between asking whether the code was
	// confirmed.
	longestInterval = 60
	// maxDescription bounds what is quoted of an issuer's error, in bytes.
	maxDescription = 200
)

// Code is what the user confirms in a browser.
type Code struct {
	// URL is where, and UserCode what to enter there. URLComplete has the code in it; it is
	// empty if the issuer has no such address.
	URL, URLComplete, UserCode string
}

// endpoints are what is read of an issuer's configuration (OpenID Connect Discovery 1.0).
type endpoints struct {
	Issuer string `json:"issuer"`
	Device string `json:"device_authorization_endpoint"`
	Token  string `json:"token_endpoint"`
}

// Device logs in to a server by the device authorization flow (RFC 8628). Show gets the
// code; it returns when the user has confirmed it, the time for that is over, or ctx is
// done. The login is not kept yet.
func Device(ctx context.Context, server string, s Settings, show func(Code)) (*Login, error) {
	caller, err := s.caller()
	if err != nil {
		return nil, err
	}
	found, err := discover(ctx, caller, s.Issuer)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, caller)
	config := oauth2.Config{ClientID: s.ClientID, Scopes: s.Scopes, Endpoint: oauth2.Endpoint{
		DeviceAuthURL: found.Device, TokenURL: found.Token, AuthStyle: oauth2.AuthStyleInParams,
	}}
	var options []oauth2.AuthCodeOption
	if s.Audience != "" {
		options = append(options, oauth2.SetAuthURLParam("audience", s.Audience))
	}
	answer, err := config.DeviceAuth(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the issuer %s gives no code: %w", s.Issuer, reason(err))
	}
	if err := checkCode(answer); err != nil {
		return nil, fmt.Errorf("the issuer %s gives no code: %w", s.Issuer, err)
	}
	show(Code{URL: answer.VerificationURI, URLComplete: answer.VerificationURIComplete, UserCode: answer.UserCode})
	token, err := config.DeviceAccessToken(ctx, answer)
	if err != nil {
		return nil, fmt.Errorf("not logged in: %w", reason(err))
	}
	l := &Login{Settings: s, Server: normal(server), TokenURL: found.Token}
	return l, l.take(token)
}

// checkCode checks what is shown to a person, and what the client library counts with.
func checkCode(answer *oauth2.DeviceAuthResponse) error {
	for _, address := range []string{answer.VerificationURI, answer.VerificationURIComplete} {
		u, err := url.Parse(address)
		if err != nil || address != "" && u.Scheme != "https" && u.Scheme != "http" {
			return errors.New("its verification_uri is no address of a page")
		}
	}
	if strings.ContainsFunc(answer.UserCode, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("its code has characters that cannot be shown")
	}
	if answer.UserCode == "" || answer.VerificationURI == "" || answer.DeviceCode == "" {
		return errors.New("its answer has no code, or no address to enter it at")
	}
	answer.Interval = min(max(answer.Interval, 0), longestInterval)
	return nil
}

// take keeps what an issuer gave.
func (l *Login) take(token *oauth2.Token) error {
	l.Token = token.AccessToken
	if l.Audience == "" {
		l.Token, _ = token.Extra("id_token").(string)
	}
	switch {
	case l.Token == "":
		return fmt.Errorf("the issuer %s gives no ID token: ask for the scope openid, or name an --audience, so that its access token is taken", l.Issuer)
	case !tokenfile.Fits(l.Token):
		return fmt.Errorf("the token of the issuer %s has more than 8192 bytes, or characters that no token has", l.Issuer)
	}
	l.Expires = expiry(l.Token)
	if l.Expires.IsZero() && l.Audience != "" {
		l.Expires = token.Expiry
	}
	if token.RefreshToken != "" {
		l.RefreshToken = token.RefreshToken
	}
	return nil
}

// refresh gets the next token.
func (l *Login) refresh(ctx context.Context) error {
	caller, err := l.caller()
	if err != nil {
		return err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, caller)
	config := oauth2.Config{ClientID: l.ClientID, Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: oauth2.AuthStyleInParams}}
	token, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: l.RefreshToken}).Token()
	if err != nil {
		return reason(err)
	}
	return l.take(token)
}

// caller is who calls an issuer. It follows no redirects: they would lead a token elsewhere.
func (s Settings) caller() (*http.Client, error) {
	authorities, err := port.Authorities(command.FlagValue{Flag: "issuer-ca-cert", Value: s.CACert})
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	return &http.Client{
		Timeout:       issuerTime,
		Transport:     &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// discover reads an issuer's configuration.
func discover(ctx context.Context, caller *http.Client, issuer string) (endpoints, error) {
	var found endpoints
	if !Private(issuer) || !strings.Contains(issuer, "://") {
		return found, errors.New("--issuer: it is a URL that begins with https://")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return found, fmt.Errorf("--issuer: %w", err)
	}
	response, err := caller.Do(request)
	if err != nil {
		return found, fmt.Errorf("the issuer does not answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return found, fmt.Errorf("--issuer: what answers at %s is no OpenID Connect issuer: it says %s", request.URL, response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxDiscovery)).Decode(&found); err != nil {
		return found, fmt.Errorf("--issuer: what answers at %s is no OpenID Connect issuer", request.URL)
	}
	return found, found.check(issuer)
}

// check checks whether the endpoints are those of the issuer, and can be used.
func (e endpoints) check(issuer string) error {
	switch {
	case e.Issuer != issuer:
		return fmt.Errorf("--issuer: it calls itself %.200q: name it just so", e.Issuer)
	case e.Device == "":
		return errors.New("the issuer has no device authorization flow (RFC 8628): name a token with --token-file or UNDERSTUDY_TOKEN, or a certificate with --client-cert")
	case slices.ContainsFunc([]string{e.Device, e.Token}, func(u string) bool { return !strings.Contains(u, "://") || !Private(u) }):
		return errors.New("the issuer's endpoints are not https://")
	}
	return nil
}

// reason is the error of a call of an issuer without what it may quote.
func reason(err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &refused) && refused.ErrorCode == "access_denied":
		return errors.New("it was declined in the browser")
	case errors.As(err, &refused) && refused.ErrorCode == "expired_token", errors.Is(err, context.DeadlineExceeded):
		return errors.New("the code was not confirmed in time")
	case errors.As(err, &refused):
		text := refused.ErrorCode + " " + refused.ErrorDescription
		return fmt.Errorf("it answers %s %s", refused.Response.Status, strings.TrimSpace(text[:min(len(text), maxDescription)]))
	}
	var call *url.Error
	if errors.As(err, &call) {
		return err
	}
	return errors.New("its answer cannot be used")
}
