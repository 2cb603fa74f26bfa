package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/tokenfile"
)

// early is how long before its end a token is refreshed: the call, and clocks that differ.
const early = 30 * time.Second

// Settings are what a login asks of an issuer. They are kept with the login, so that the
// next one to the same server needs no flags.
type Settings struct {
	// Issuer is the URL of the OpenID Connect issuer.
	Issuer string `json:"issuer"`
	// ClientID is the public client that the issuer knows.
	ClientID string `json:"clientId"`
	// Scopes are those that are asked for; openid is one of them.
	Scopes []string `json:"scopes"`
	// Audience, if it is not empty, is who the token is for: the access token is then what
	// the server is shown, else the ID token.
	Audience string `json:"audience,omitempty"`
	// CACert is a PEM file with who signed the issuer's certificate; empty is the system's
	// authorities.
	CACert string `json:"caCert,omitempty"`
}

// Login is what is kept of a login to one server.
type Login struct {
	Settings
	// Server is the address that the token is shown to, and to no other.
	Server string `json:"server"`
	// TokenURL is where the issuer refreshes tokens.
	TokenURL string `json:"tokenUrl"`
	// Token is shown to the server.
	Token string `json:"token,omitempty"`
	// Expires is when the token ends; zero if it does not say.
	Expires time.Time `json:"expires,omitzero"`
	// RefreshToken gets the next token; empty if the issuer gave none.
	RefreshToken string `json:"refreshToken,omitempty"`
}

// Saved returns the login to a server, nil if there is none. A file that others can read is
// refused: somebody may have taken what it holds.
func Saved(addr string) (*Login, error) {
	path, err := pathOf(addr)
	if err != nil {
		return nil, nil // without a home there is no login
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the login: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the login in %s can be read by others: `chmod 600` it, or log in again", path)
	}
	content, err := command.ReadSmallFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the login: %w", err)
	}
	l := &Login{}
	if json.Unmarshal(content, l) != nil || l.Server != normal(addr) || l.Token != "" && !tokenfile.Fits(l.Token) {
		return nil, fmt.Errorf("the login in %s is damaged: `understudy logout` removes it", path)
	}
	if l.Token == "" {
		return nil, nil
	}
	return l, nil
}

// SavedSettings are those of the last login to a server, also after a logout.
func SavedSettings(addr string) Settings {
	path, err := pathOf(addr)
	if err != nil {
		return Settings{}
	}
	content, err := command.ReadSmallFile(path)
	if err != nil {
		return Settings{}
	}
	l := Login{}
	if err := json.Unmarshal(content, &l); err != nil {
		return Settings{}
	}
	return l.Settings
}

// Forget removes the tokens of a login; the settings stay, and are no secret. It reports
// whether there was a login.
func Forget(addr string) (bool, error) {
	path, err := pathOf(addr)
	if err != nil {
		return false, err
	}
	content, err := command.ReadSmallFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	l := Login{}
	if err != nil || json.Unmarshal(content, &l) != nil || l.Server != normal(addr) {
		return true, os.Remove(path)
	}
	was := l.Token != ""
	l.Token, l.RefreshToken, l.Expires = "", "", time.Time{}
	return was, l.save(path)
}

// Save keeps a login for its server, in place of the one before.
func (l *Login) Save() error {
	path, err := pathOf(l.Server)
	if err != nil {
		return err
	}
	return l.save(path)
}

// save writes the file as a whole, which nobody else can read at any time.
func (l *Login) save(path string) error {
	content, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keeping the login: %w", err)
	}
	// CreateTemp makes a file of mode 0600.
	file, err := os.CreateTemp(filepath.Dir(path), "login-*.tmp")
	if err != nil {
		return fmt.Errorf("keeping the login: %w", err)
	}
	_, err = file.Write(append(content, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("keeping the login: %w", err)
	}
	return nil
}

// Fresh is the token of a login that is not kept yet.
func (l *Login) Fresh() Token { return Token{Value: l.Token, From: "`understudy login`"} }

// bearer returns the token, a new one if it has expired.
func (l *Login) bearer(ctx context.Context) (string, error) {
	if l.fresh() {
		return l.Token, nil
	}
	unlock, err := lock(l.Server)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another command may have refreshed it meanwhile, and the issuer takes each refresh
	// token once.
	if now, err := Saved(l.Server); err == nil && now != nil {
		*l = *now
	}
	if l.fresh() {
		return l.Token, nil
	}
	if l.RefreshToken == "" {
		return "", fmt.Errorf("the login to %s has expired: `understudy login` renews it", l.Server)
	}
	if err := l.refresh(ctx); err != nil {
		return "", fmt.Errorf("the login to %s has expired, and its issuer does not renew it: %w; `understudy login` logs in again", l.Server, err)
	}
	return l.Token, l.Save()
}

// fresh reports whether the token is good for a call.
func (l *Login) fresh() bool { return l.Expires.IsZero() || time.Until(l.Expires) > early }

// lock makes this the only process that refreshes the login to a server, until unlock.
func lock(addr string) (unlock func(), err error) {
	path, err := pathOf(addr)
	if err != nil {
		return nil, err
	}
	file, err := lockedfile.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keeping the login: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// pathOf is the file of the login to a server, in the user's folder for configuration.
func pathOf(addr string) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder to keep a login in: %w; name a token with --token-file or UNDERSTUDY_TOKEN", err)
	}
	of := sha256.Sum256([]byte(normal(addr)))
	return filepath.Join(dir, "understudy", "logins", hex.EncodeToString(of[:8])+".json"), nil
}

// normal is an address as it is kept: two forms of one are one.
func normal(addr string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/"))
}

// expiry is when a token ends that is a JWT; zero if it does not say. Nothing is verified:
// the server does that.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	// A map has names as they are; a struct would take EXP for exp.
	var claims map[string]any
	if json.Unmarshal(payload, &claims) != nil {
		return time.Time{}
	}
	seconds, _ := claims["exp"].(float64)
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}
