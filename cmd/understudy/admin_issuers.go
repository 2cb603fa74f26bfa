package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"understudy/admin/authentication/oidc"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/tokenfile"
)

// issuerFlags are the issuers of OpenID Connect whose tokens the admin API takes, as they were
// given: each is one, or several with blanks between them. What is set of an issuer stands with
// its URL, so that nothing of one can be taken for another's.
type issuerFlags []string

// issuerHelp is the help of the flag.
const issuerHelp = "an OpenID Connect issuer whose tokens the admin API takes: its URL and, behind commas, its settings, as in " +
	"https://login.example.com,audience=understudy; the settings are audience (needed unless there is a client-id; repeatable), " +
	"groups-claim (default groups; none if empty), display-claim (names for people: the first that is there; default email, preferred_username, name; none if empty; repeatable), ca-file, token-file (the bearer token for its configuration and keys, read each time that they are), client-id (browsers log in there, and come back to --admin-url with /ui/callback/ and the issuer without https://), " +
	"client-secret-file and scope (repeatable). The flag is repeatable; its variable has issuers with blanks between them"

// each are the issuers one by one. An empty variable has none.
func (i issuerFlags) each() []string { return strings.Fields(strings.Join(i, " ")) }

// check calls check with what is wrong with each issuer.
func (i issuerFlags) check(check rule) {
	_, errs := i.parse()
	for _, err := range errs {
		check(false, "admin-oidc-issuer", err.Error())
	}
}

// parse reads all issuers.
func (i issuerFlags) parse() (all []issuerConfig, errs []error) {
	seen := map[string]bool{}
	for n, text := range i.each() {
		c, err := parseIssuer(text)
		if err == nil && seen[oidc.NameOf(c.url)] {
			err = errors.New("it is there twice: put all its settings behind one URL")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", issuerInErrors(n+1, c.url), err))
		}
		seen[oidc.NameOf(c.url)] = true
		all = append(all, c)
	}
	return all, errs
}

// issuerInErrors returns what an error calls the issuer with a number, from 1: by its URL, unless that
// is none, or has a part that may be secret.
func issuerInErrors(number int, text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Sprintf("issuer %d", number)
	}
	return text
}

// open makes the issuers. They need not be there yet. Errors name the flag.
func (i issuerFlags) open(log *slog.Logger) (issuers oidc.Issuers, err error) {
	all, errs := i.parse()
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	for _, c := range all {
		issuer, err := c.open(log)
		if err != nil {
			return nil, fmt.Errorf("--admin-oidc-issuer %s: %w", c.url, err)
		}
		issuers = append(issuers, issuer)
	}
	return issuers, nil
}

// issuerConfig is one issuer.
type issuerConfig struct {
	// url is the issuer, just as its tokens name it.
	url string
	// audiences are those of which a token has to have one.
	audiences []string
	// groupsClaim is the claim with the groups; empty if there are none.
	groupsClaim string
	// displayClaims are those of which the first one that is there is the name for people.
	displayClaims []string
	// caFile is a PEM file with the authorities of its certificate; empty means those of the
	// system.
	caFile string
	// tokenFile has the bearer token for the issuer's configuration and keys; empty if they are
	// public.
	tokenFile string
	// clientID is what this server is to the issuer, for logins in a browser; empty if there are
	// none.
	clientID string
	// clientSecretFile has the client's secret; empty for a public client.
	clientSecretFile string
	// scopes are what a login asks for next to openid.
	scopes []string
}

// settings :: name → where it is kept: a *string is given once at most, a *[]string collects.
func (i *issuerConfig) settings() map[string]any {
	return map[string]any{
		"audience": &i.audiences, "groups-claim": &i.groupsClaim, "display-claim": &i.displayClaims, "ca-file": &i.caFile, "token-file": &i.tokenFile,
		"client-id": &i.clientID, "client-secret-file": &i.clientSecretFile, "scope": &i.scopes,
	}
}

// parseIssuer reads a URL and the settings behind it. With an error, the URL is there.
func parseIssuer(text string) (i issuerConfig, err error) {
	url, rest, more := strings.Cut(text, ",")
	i = issuerConfig{url: url, groupsClaim: "groups"}
	if err := oidc.CheckURL(url); err != nil {
		return i, err
	}
	if more {
		if err := i.set(strings.Split(rest, ",")); err != nil {
			return i, err
		}
	}
	if i.displayClaims == nil {
		i.displayClaims = displayClaims
	}
	return i, i.check()
}

// mayBeEmpty :: settings that take nothing where there is a default.
var mayBeEmpty = map[string]bool{"groups-claim": true, "display-claim": true}

// displayClaims are those of a name for people, if nothing else is set.
var displayClaims = []string{"email", "preferred_username", "name"}

// set reads settings.
func (i *issuerConfig) set(settings []string) error {
	known, seen := i.settings(), map[string]bool{}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		switch to := known[name].(type) {
		case *[]string:
			if value == "" && !mayBeEmpty[name] {
				return fmt.Errorf("%s: it is %s=VALUE", name, name)
			}
			*to = append(*to, value)
		case *string:
			if seen[name] {
				return fmt.Errorf("%s: it is there more than once", name)
			}
			if value == "" && !mayBeEmpty[name] {
				return fmt.Errorf("%s: it is %s=VALUE", name, name)
			}
			*to = value
		default:
			return fmt.Errorf("it has no setting %.60q; the settings are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		seen[name] = true
	}
	return nil
}

// check returns what is wrong with the settings together. A login's token is for the client.
func (i *issuerConfig) check() error {
	switch {
	case i.clientID == "" && len(i.audiences) == 0:
		return errors.New("audience: a token of the issuer may be for anyone: name the audience of those that are for this server, as in " + i.url + ",audience=understudy")
	case i.clientID == "" && i.clientSecretFile != "":
		return errors.New("client-secret-file: it comes with client-id")
	case i.clientID == "" && len(i.scopes) > 0:
		return errors.New("scope: it comes with client-id")
	case i.clientID != "":
		return oidc.CheckLogin(i.url)
	}
	return nil
}

// open makes the issuer.
func (i *issuerConfig) open(log *slog.Logger) (*oidc.Issuer, error) {
	c := oidc.Config{URL: i.url, Audiences: slices.Clone(i.audiences), GroupsClaim: i.groupsClaim, DisplayClaims: slices.DeleteFunc(slices.Clone(i.displayClaims), isEmpty), Logger: log}
	var err error
	if c.Authorities, err = i.authorities(); err != nil {
		return nil, err
	}
	if c.Token, err = tokenIn(i.tokenFile); err != nil {
		return nil, fmt.Errorf("token-file: %w", err)
	}
	if i.clientID != "" {
		c.Audiences = append(c.Audiences, i.clientID)
		c.Client = &oidc.Client{ID: i.clientID, Scopes: append([]string{"openid"}, i.scopes...)}
	}
	if c.Client != nil {
		if c.Client.Secret, err = tokenIn(i.clientSecretFile); err != nil {
			return nil, fmt.Errorf("client-secret-file: %w", err)
		}
	}
	return oidc.New(c)
}

// tokenIn returns what reads a file each time that its token is needed; nil if there is no file.
// The file is read here once, so that a wrong one is found out when the process starts.
func tokenIn(file string) (func() (string, error), error) {
	if file == "" {
		return nil, nil
	}
	_, err := tokenfile.Read(file)
	return func() (string, error) { return tokenfile.Read(file) }, err
}

// isEmpty reports whether a claim is none.
func isEmpty(claim string) bool { return claim == "" }

// authorities reads those of the issuer's certificate; nil are those of the system.
func (i *issuerConfig) authorities() (*x509.CertPool, error) {
	if i.caFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(i.caFile)
	if err != nil {
		return nil, fmt.Errorf("ca-file: %w; name a PEM file that this process may read", err)
	}
	pool, err := port.CertPool(content)
	if err != nil {
		return nil, fmt.Errorf("ca-file %s: %w; it holds certificates of authorities as PEM", i.caFile, err)
	}
	return pool, nil
}
