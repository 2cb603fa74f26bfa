// Package tokenfile reads files with one token each, and follows them as they are rotated.
//
// A token is a secret: errors name its file and quote nothing of it. Files are read again
// at an interval and compared by what they hold, since a platform replaces them in its own
// way.
package tokenfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"understudy/admin/authentication/tokens"
)

// maxTokenFile bounds a file with a token, in bytes: it goes into a header.
const maxTokenFile = 8 << 10

// Files are files with one token each.
type Files []string

// Read returns the tokens.
func (f Files) Read() ([]string, error) {
	tokens := make([]string, len(f))
	for i, path := range f {
		token, err := Read(path)
		if err != nil {
			return nil, fmt.Errorf("--reservation-token-file: %w", err)
		}
		tokens[i] = token
	}
	return tokens, nil
}

// Read returns the token in a file, without the space around it. Its errors name the
// file and quote nothing of it. A file that others can read or write is refused
// ([tokens.CheckMode]).
//
// That nothing is quoted matters: the error is logged, and a file of another secret may
// have been named by mistake.
func Read(path string) (string, error) {
	token, exposed, err := ReadExposed(path)
	if err == nil && exposed != nil {
		return "", exposed
	}
	return token, err
}

// ReadExposed is Read of a file that others may be able to read or write, which exposed says.
func ReadExposed(path string) (token string, exposed, err error) {
	content, exposed, err := readBounded(path)
	if err != nil {
		return "", nil, fmt.Errorf("%w; name a file that this process may read", err)
	}
	token, err = parse(path, content)
	return token, exposed, err
}

// parse returns the token that is the content of a file.
func parse(path string, content []byte) (string, error) {
	if len(content) > maxTokenFile {
		return "", fmt.Errorf("%s: it has more than %d bytes; it holds one token", path, maxTokenFile)
	}
	token := bytes.TrimSpace(content)
	if !Fits(string(token)) {
		return "", fmt.Errorf("%s: it holds one token of printable ASCII, without a space in it", path)
	}
	return string(token), nil
}

// readBounded returns a file's content, a byte more than the bound if it is larger.
func readBounded(path string) (content []byte, exposed, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	content, err = io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	return content, tokens.CheckMode(file), err
}

// Fits reports whether a text is what every client can send as a header's value, and every
// server takes.
func Fits(token string) bool {
	return 0 < len(token) && len(token) <= maxTokenFile && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// Follow reads the files again until ctx is done, and sets the tokens when they are
// others. While the files cannot be read, those before stay.
func (f Files) Follow(ctx context.Context, every time.Duration, log *slog.Logger, set func([]string) error) {
	if len(f) == 0 {
		return
	}
	known, failing := []string(nil), false
	for ticker := time.NewTicker(every); ; {
		tokens, err := f.Read()
		if err == nil && !slices.Equal(tokens, known) {
			err = set(tokens)
			if known != nil {
				log.Info("new tokens admit to reservation checks", "tokens", len(tokens))
			}
			known = tokens
		}
		if err != nil && !failing {
			log.Error("the tokens of reservation checks cannot be read again; those before stay", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
	}
}
