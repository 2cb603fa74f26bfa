package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"golang.org/x/oauth2"
)

// Client is what this server is to its issuer, for logins in a browser.
type Client struct {
	// ID is that of the client. Its ID tokens are for it, so it is one of the audiences.
	ID string
	// Secret returns that of the client, each time that it is needed; nil for a public
	// client, for which PKCE alone stands in.
	Secret func() (string, error)
	// Scopes are those that are asked for, openid among them.
	Scopes []string
}

// Attempt is one login: what the browser keeps until it comes back from the issuer.
type Attempt struct {
	// State, Nonce and Verifier are random: each is sent, or its digest is, and compared
	// when it comes back (RFC 6749, section 10.12; OpenID Connect Core, section 3.1.2.1;
	// RFC 7636).
	State, Nonce, Verifier string
	// Redirect is the URL that the issuer sends the browser to.
	Redirect string
}

// errNoClient is the error of a login at an issuer that does not know this server.
var errNoClient = errors.New("this server is no client of the issuer")

// namePattern is the name of an issuer that can be a part of a path as it stands, without one
// that proxies could read as another one.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)

// CheckLogin returns an error if browsers cannot log in at an issuer, since its name is to be
// in the address that they come back to.
func CheckLogin(issuer string) error {
	if !namePattern.MatchString(NameOf(issuer)) {
		return errors.New("browsers cannot log in at an issuer with a path of other characters than letters, digits and ._~-")
	}
	return nil
}

// Name is the issuer for people, and in the address that its logins come back to. Each issuer
// has an address of its own, so that a code of one never goes to another one (mix-up, RFC 9700,
// section 4.4.2).
func (i *Issuer) Name() string { return NameOf(i.config.URL) }

// LogsIn reports whether browsers log in at the issuer.
func (i *Issuer) LogsIn() bool { return i.config.Client != nil }

// AuthCodeURL is where a browser logs in. The error is an *Unavailable, or that of the secret.
func (i *Issuer) AuthCodeURL(ctx context.Context, a Attempt) (string, error) {
	config, err := i.oauth(ctx, a.Redirect)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(a.State, oauth2.S256ChallengeOption(a.Verifier), oauth2.SetAuthURLParam("nonce", a.Nonce)), nil
}

// Exchange gets the ID token for a code, which is verified, and made for this login. The
// error is an *Unavailable, a *Refusal, that of the secret, or says what the issuer answered
// and quotes nothing of it but its code of the error.
func (i *Issuer) Exchange(ctx context.Context, a Attempt, code string) (token string, claims Claims, err error) {
	config, err := i.oauth(ctx, a.Redirect)
	if err != nil {
		return "", Claims{}, err
	}
	answer, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, i.client), code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return "", Claims{}, i.exchangeError(err)
	}
	token, ok := answer.Extra("id_token").(string)
	if !ok {
		return "", Claims{}, errors.New("the issuer gave no ID token: the scope openid is needed")
	}
	if claims, err = i.Verify(ctx, token); err != nil {
		return "", Claims{}, err
	}
	if claims.Nonce != a.Nonce {
		return "", Claims{}, otherLogin
	}
	return token, claims, nil
}

// oauth is the configuration of the client, at the endpoints that the issuer names.
func (i *Issuer) oauth(ctx context.Context, redirect string) (*oauth2.Config, error) {
	c := i.config.Client
	if c == nil {
		return nil, errNoClient
	}
	known := i.current.Load()
	if known == nil {
		var err error
		if known, err = i.fetch(ctx); err != nil {
			return nil, i.away()
		}
	}
	secret := ""
	if c.Secret != nil {
		var err error
		if secret, err = c.Secret(); err != nil {
			return nil, err
		}
	}
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: secret, Endpoint: known.provider.Endpoint(), RedirectURL: redirect, Scopes: c.Scopes,
	}, nil
}

// exchangeError is the error of an exchange without the body of the answer.
func (i *Issuer) exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		return i.away()
	}
	if refused.Response.StatusCode >= http.StatusInternalServerError {
		return i.away()
	}
	return fmt.Errorf("the issuer answers the code with %d %.60q", refused.Response.StatusCode, refused.ErrorCode)
}
