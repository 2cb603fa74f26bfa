package oidctest

import (
	"crypto/rand"
	"maps"
	"net/http"
	"sync"
	"time"
)

// DevicePath is where a device asks for a code.
const DevicePath = "/device"

// The grants of RFC 8628 and RFC 6749, as a request for a token names them.
const (
	deviceGrant  = "urn:ietf:params:oauth:grant-type:device_code"
	refreshGrant = "refresh_token"
)

// Device is an issuer's device authorization flow (RFC 8628), with refresh tokens of which
// each is good once.
type Device struct {
	issuer *Issuer

	mu sync.Mutex
	// codes :: device code → what became of it.
	codes map[string]confirmation
	// refresh are the refresh tokens that are good.
	refresh map[string]bool
	// lifetime is that of the ID tokens.
	lifetime time.Duration
	// audience is what the last request for a code asked for.
	audience string
}

// confirmation is what became of a code: nothing yet, confirmed or declined.
type confirmation int

const (
	pending confirmation = iota
	confirmed
	declined
)

// ServeDevice adds the flow to an issuer. Tokens live an hour.
func (i *Issuer) ServeDevice() *Device {
	d := &Device{issuer: i, codes: map[string]confirmation{}, refresh: map[string]bool{}, lifetime: time.Hour}
	i.SetReply(DiscoveryPath, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + KeysPath,
			"authorization_endpoint": i.URL + AuthorizePath, "token_endpoint": i.URL + TokenPath,
			"device_authorization_endpoint":         i.URL + DevicePath,
			"id_token_signing_alg_values_supported": []string{"RS256", "ES256"},
		})
	})
	i.SetReply(DevicePath, d.begin)
	i.SetReply(TokenPath, d.token)
	return d
}

// SetLifetime sets how long ID tokens are good from now on.
func (d *Device) SetLifetime(lifetime time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lifetime = lifetime
}

// Confirm confirms all codes, as their user does in a browser.
func (d *Device) Confirm() { d.decide(confirmed) }

// Decline declines all codes.
func (d *Device) Decline() { d.decide(declined) }

// Revoke takes all refresh tokens back.
func (d *Device) Revoke() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.refresh)
}

// Audience is what the last request for a code asked for; empty if it named none.
func (d *Device) Audience() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.audience
}

func (d *Device) decide(v confirmation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for code := range d.codes {
		d.codes[code] = v
	}
}

// begin gives out a code (RFC 8628, section 3.2).
func (d *Device) begin(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("client_id") != d.issuer.Audience {
		reply(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "there is no such client"})
		return
	}
	code := rand.Text()
	d.mu.Lock()
	d.codes[code], d.audience = pending, r.FormValue("audience")
	d.mu.Unlock()
	reply(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": "WDJB-MJHT", "expires_in": 600, "interval": 1,
		"verification_uri": d.issuer.URL + "/activate", "verification_uri_complete": d.issuer.URL + "/activate?user_code=WDJB-MJHT",
	})
}

// token gives tokens for a code that was confirmed, or for a refresh token.
func (d *Device) token(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r.FormValue("grant_type") {
	case deviceGrant:
		code := r.FormValue("device_code")
		v, found := d.codes[code]
		switch {
		case !found:
			reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		case v == pending:
			reply(w, http.StatusBadRequest, map[string]any{"error": "authorization_pending"})
		case v == declined:
			reply(w, http.StatusBadRequest, map[string]any{"error": "access_denied"})
		default:
			delete(d.codes, code)
			d.grant(w)
		}
	case refreshGrant:
		given := r.FormValue("refresh_token")
		if !d.refresh[given] {
			reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "the refresh token is not good any more"})
			return
		}
		delete(d.refresh, given)
		d.grant(w)
	default:
		d.issuer.exchange(w, r)
	}
}

// grant gives tokens; d is locked.
func (d *Device) grant(w http.ResponseWriter) {
	next := rand.Text()
	d.refresh[next] = true
	d.issuer.mu.Lock()
	claims := maps.Clone(d.issuer.claims)
	d.issuer.mu.Unlock()
	claims["exp"] = time.Now().Add(d.lifetime).Unix()
	access := maps.Clone(claims)
	access["aud"] = d.audience
	reply(w, http.StatusOK, map[string]any{
		"access_token": d.issuer.Token(access), "token_type": "Bearer", "expires_in": int(d.lifetime.Seconds()),
		"id_token": d.issuer.Token(claims), "refresh_token": next,
	})
}
