package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrPasswordFile says that the password of the store cannot be had from its file.
var ErrPasswordFile = errors.New("the file with the password of the store cannot be used")

var (
	errTwoPasswords = fmt.Errorf("%w: the URL of the store has a password too; take it out there", ErrPasswordFile)
	errNoPassword   = fmt.Errorf("%w: it is empty; write the password into it, on one line", ErrPasswordFile)
	errNotAPassword = fmt.Errorf("%w: it has more than one line, or more than %d bytes; "+
		"write the password into it, on one line, and nothing else", ErrPasswordFile, maxPassword)
)

// passwordFile is the path of a file with a password; empty if there is none.
type passwordFile string

// maxPassword is the length of a password file at most, in bytes.
const maxPassword = 4096

// credentials returns a user and his password for a new connection.
type credentials func(context.Context) (user, password string, err error)

// of returns the credentials of a user: nil if there is no file. The file is read here once,
// so that a wrong one is found out when the process starts.
func (f passwordFile) of(user, inURL string) (credentials, error) {
	switch {
	case f == "":
		return nil, nil
	case inURL != "":
		return nil, errTwoPasswords
	}
	if _, err := f.read(); err != nil {
		return nil, err
	}
	return func(context.Context) (string, string, error) {
		password, err := f.read()
		if err != nil {
			// There is no connection, so nothing was sent.
			return "", "", &dialError{err}
		}
		return user, password, nil
	}, nil
}

// read returns the password. No error contains it.
func (f passwordFile) read() (string, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrPasswordFile, err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxPassword+1))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrPasswordFile, err)
	}
	password := strings.TrimRight(string(content), " \t\r\n")
	switch {
	case password == "":
		return "", errNoPassword
	case len(content) > maxPassword, strings.ContainsAny(password, "\r\n"):
		return "", errNotAPassword
	}
	return password, nil
}
