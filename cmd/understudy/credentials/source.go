package credentials

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/tokenfile"
)

// tokenVariable is the variable of the environment that holds a token.
const tokenVariable = "TOKEN"

// Source is where the token for a server is from. The zero Source takes that of the
// environment, or of a login.
type Source struct {
	// File holds one token. Empty is the environment, or a login.
	File string
	// Insecure lets a token cross the network without TLS.
	Insecure bool
}

// Bind declares the flags.
func (s *Source) Bind(f *pflag.FlagSet) {
	f.StringVar(&s.File, "token-file", "", "a file with the token to show to the server (UNDERSTUDY_TOKEN_FILE; UNDERSTUDY_TOKEN is a token itself; default that of 'understudy login')")
	f.BoolVar(&s.Insecure, "insecure-token", false, "send the token without TLS beyond this machine too, where others can read it")
}

// Token is a token, and where it is from.
type Token struct {
	// Value is the secret. Empty means that there is none.
	Value string
	// From names the place for people, such as --token-file ci.token.
	From string
	// Warning says that others can read the file of the token, or write it, and how to mend
	// that; empty if they cannot.
	Warning string
	// login is what the token is from; nil if it is from elsewhere.
	login *Login
}

// Found reports whether there is a token.
func (t Token) Found() bool { return t.Value != "" || t.login != nil }

// Read returns the token for a server, which may be none. Addr is host:port, a URL of that
// or a socket. An error names the flag or the variable, and quotes nothing of a token.
func (s Source) Read(addr string) (Token, error) {
	token, err := s.read(addr)
	if err != nil || !token.Found() {
		return Token{}, err
	}
	return token, s.MaySend(addr, token)
}

// MaySend returns an error if others could read a token on its way to a server.
func (s Source) MaySend(addr string, t Token) error {
	if s.Insecure || Private(addr) {
		return nil
	}
	return fmt.Errorf("the token of %s would cross the network so that others can read it: write https:// before the address, or add --insecure-token", t.From)
}

// read is Read wherever the token goes to.
func (s Source) read(addr string) (Token, error) {
	if s.File != "" {
		return ofFile(s.File, "--token-file")
	}
	if value := command.EnvOr(tokenVariable, ""); value != "" {
		value = strings.TrimSpace(value)
		if !tokenfile.Fits(value) {
			return Token{}, errors.New("UNDERSTUDY_TOKEN: it holds one token of printable ASCII, without a space in it")
		}
		return Token{Value: value, From: "UNDERSTUDY_TOKEN"}, nil
	}
	if file := command.EnvOr("TOKEN_FILE", ""); file != "" {
		return ofFile(file, "UNDERSTUDY_TOKEN_FILE")
	}
	login, err := Saved(addr)
	if err != nil || login == nil {
		return Token{}, err
	}
	return Token{From: "`understudy login`", login: login}, nil
}

// ofFile reads the token in a file.
func ofFile(file, flag string) (Token, error) {
	value, exposed, err := tokenfile.ReadExposed(file)
	if err != nil {
		return Token{}, fmt.Errorf("%s: %w", flag, err)
	}
	token := Token{Value: value, From: flag + " " + file}
	if exposed != nil { // no error: platforms mount tokens so that every user of a container can read them
		token.Warning = flag + ": " + exposed.Error()
	}
	return token, nil
}

// Bearer returns the token to send now: that of a login is refreshed if it has expired.
func (t Token) Bearer(ctx context.Context) (string, error) {
	if t.login == nil {
		return t.Value, nil
	}
	return t.login.bearer(ctx)
}

// Private reports whether what is sent to an address can be read by nobody else: it is sent
// over TLS, or stays on this machine. A name other than localhost may lead anywhere.
func Private(addr string) bool {
	if strings.HasPrefix(addr, "https://") || strings.HasPrefix(addr, "unix:") {
		return true
	}
	host := strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
