package command

import (
	"fmt"
	"io"
	"os"
)

// maxInput bounds a file that is read, in bytes: four times the largest policy that a
// server can be configured to take, for how JSON and YAML write it.
const maxInput = 4 * (64 << 20)

// maxSmallInput bounds a file of keys, certificates or configuration, in bytes.
const maxSmallInput = 1 << 20

// ReadFile reads a file; - is standard input. A file that is named may be a pipe, such as
// that of <(…), but not one without an end.
func ReadFile(name string, stdin io.Reader) ([]byte, error) {
	return readUpTo(name, stdin, maxInput)
}

// ReadSmallFile is readFile of what is never large.
func ReadSmallFile(name string) ([]byte, error) { return readUpTo(name, nil, maxSmallInput) }

// readUpTo reads a byte more than the limit, so that a file of just that size is accepted.
func readUpTo(name string, stdin io.Reader, limit int64) ([]byte, error) {
	from, what := stdin, "standard input"
	if name != "-" || stdin == nil {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from, what = file, name
	}
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d MiB", what, limit>>20)
	}
	return content, err
}
