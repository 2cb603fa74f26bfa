package oidc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// Issuers verify tokens, each those that name it. They share nothing, so that one that is away
// keeps nobody else's tokens from being verified.
type Issuers []*Issuer

// Check returns an error if a token could be of two of them, or a login could come back to two.
func (all Issuers) Check() error {
	seen := map[string]bool{}
	for _, i := range all {
		if seen[i.Name()] {
			return errors.New("the issuer " + i.Name() + " is there twice")
		}
		seen[i.Name()] = true
	}
	return nil
}

// Verify returns what a token says. The error is a *Refusal or an *Unavailable.
func (all Issuers) Verify(ctx context.Context, token string) (Claims, error) {
	if len(token) > maxToken {
		return Claims{}, oversized
	}
	issuer, ok := peekIssuer(token)
	if !ok {
		return Claims{}, malformed
	}
	// Tokens of others are refused without asking anybody.
	at := slices.IndexFunc(all, func(i *Issuer) bool { return i.config.URL == issuer })
	if at < 0 {
		return Claims{}, otherIssuer
	}
	return all[at].verifyOwn(ctx, token)
}

// Follow keeps the keys of all fresh until ctx is done.
func (all Issuers) Follow(ctx context.Context) {
	var following sync.WaitGroup
	for _, i := range all {
		following.Go(func() { i.Follow(ctx) })
	}
	following.Wait()
}

// URLs are those of the issuers.
func (all Issuers) URLs() []string {
	urls := make([]string, len(all))
	for n, i := range all {
		urls[n] = i.URL()
	}
	return urls
}

// Unavailable is the error of a token that cannot be verified now: its issuer is away, and the
// key of the token is not known.
type Unavailable struct {
	// Issuer is its URL.
	Issuer string
}

// Error implements error.
func (u *Unavailable) Error() string { return "the issuer " + u.Issuer + " is away" }

// NameOf is the URL of an issuer without its scheme and a slash at its end, for people and for
// the address that its logins come back to.
func NameOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	return strings.TrimRight(rest, "/")
}
