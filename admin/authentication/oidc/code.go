package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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

// AuthCodeURL is where a browser logs in. The error is ErrUnavailable, or that of the secret.
func (i *Issuer) AuthCodeURL(ctx context.Context, c Client, a Attempt) (string, error) {
	config, err := i.oauth(ctx, c, a.Redirect)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(a.State, oauth2.S256ChallengeOption(a.Verifier), oauth2.SetAuthURLParam("nonce", a.Nonce)), nil
}

// Exchange gets the ID token for a code, which is verified, and made for this login. The
// error is ErrUnavailable, a *Refusal, that of the secret, or says what the issuer answered
// and quotes nothing of it but its code of the error.
func (i *Issuer) Exchange(ctx context.Context, c Client, a Attempt, code string) (token string, claims Claims, err error) {
	config, err := i.oauth(ctx, c, a.Redirect)
	if err != nil {
		return "", Claims{}, err
	}
	answer, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, i.client), code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return "", Claims{}, exchangeError(err)
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

// oauth is the configuration of a client, at the endpoints that the issuer names.
func (i *Issuer) oauth(ctx context.Context, c Client, redirect string) (*oauth2.Config, error) {
	known := i.current.Load()
	if known == nil {
		var err error
		if known, err = i.fetch(ctx); err != nil {
			return nil, ErrUnavailable
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
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		return ErrUnavailable
	}
	if refused.Response.StatusCode >= http.StatusInternalServerError {
		return ErrUnavailable
	}
	return fmt.Errorf("the issuer answers the code with %d %.60q", refused.Response.StatusCode, refused.ErrorCode)
}
