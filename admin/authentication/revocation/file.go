package revocation

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"understudy/admin/access"
)

// maxFile bounds a file, in bytes: more than 10,000 members.
const maxFile = 1 << 20

// readBounded returns a file's content.
func readBounded(path string) (content []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		return nil, fmt.Errorf("%s: it has more than %d bytes", path, maxFile)
	}
	return content, err
}

// parse reads the lines of a file. The error is that of the first bad line; the members of all
// good lines are there all the same.
func parse(content []byte) (found members, err error) {
	found = members{}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		member := string(bytes.TrimSpace(line))
		if member == "" || member[0] == '#' {
			continue
		}
		if bad := access.CheckMember(member); bad == nil {
			found[member] = true
		} else if err == nil {
			err = fmt.Errorf("line %d: it is a member, as bindings name them: %w", number, bad)
		}
	}
	return found, err
}
