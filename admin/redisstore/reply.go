package redisstore

import (
	"errors"
	"strconv"

	"understudy/authz"
)

// errReply says that a function answered what it never answers: some other program
// writes the same keys.
var errReply = errors.New("the reply of a function makes no sense")

// texts returns a reply that is a list of strings.
func texts(reply any) ([]string, error) {
	values, ok := reply.([]any)
	if !ok {
		return nil, errReply
	}
	out := make([]string, len(values))
	for i, v := range values {
		if out[i], ok = v.(string); !ok {
			return nil, errReply
		}
	}
	return out, nil
}

// decodeHead returns the cursor of {sequence, nonce}; {} is the zero one.
func decodeHead(reply any) (authz.Cursor, error) {
	fields, err := texts(reply)
	if err != nil || len(fields) == 0 {
		return authz.Cursor{}, err
	}
	if len(fields) != 2 {
		return authz.Cursor{}, errReply
	}
	return decodeCursor(fields[0], fields[1])
}

// decodeCursor reads a cursor of two texts, as functions and streams have them.
func decodeCursor(sequence, nonce string) (authz.Cursor, error) {
	n, err := strconv.ParseInt(sequence, 10, 64)
	if err != nil {
		return authz.Cursor{}, errReply
	}
	return authz.Cursor{Sequence: n, Nonce: nonce}, nil
}
