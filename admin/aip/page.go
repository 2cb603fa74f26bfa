package aip

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	//
	// The numbers are in AIP-158 only as an example; these are in the API's documentation.
	defaultPageSize = 50
	maxPageSize     = 1000
	// checksumSize is in bytes. A token is no secret, so it need not resist more than mistakes.
	checksumSize = 12
)

// PageSize returns the number of items to return for a page_size: 50 if it is 0
// and at most 1000 (AIP-158). The error is an *Error.
func PageSize(given int32) (int, error) {
	switch {
	// AIP-158: INVALID_ARGUMENT. More than the maximum is no error, but gives a page of the maximum.
	case given < 0:
		return 0, errorf("The page size cannot be negative.")
	case given == 0:
		return defaultPageSize, nil
	default:
		return min(int(given), maxPageSize), nil
	}
}

// Page returns one page of messages, in order, and the token of the next, which is
// empty if there is none. A token holds the last item of its page as far as the
// order sees it, so that a page begins where the last one ended whatever has been
// created or deleted since (AIP-158: a keyset). It is bound to the query, which is
// all parts of the request but page size and token; it is no permission. The
// error is an *Error about the token.
func Page[M proto.Message](messages []M, order Order, size int, token string, query ...string) ([]M, string, error) {
	// All messages are there already: stores have no orders of ours. See [Order] for why it is total.
	Sort(messages, order)
	if token != "" {
		last, err := decodeToken[M](token, query)
		if err != nil {
			return nil, "", err
		}
		from, found := slices.BinarySearchFunc(messages, last, func(m, last M) int { return order.compare(m, last) })
		// The last item is still there: the page begins behind it. If it is gone, the page begins where it
		// would be.
		if found {
			from++
		}
		messages = messages[from:]
	}
	// AIP-158: an empty token is the end of a list, so that no page is asked for in vain.
	if len(messages) <= size {
		return messages, "", nil
	}
	page := messages[:size]
	next, err := encodeToken(order.project(page[size-1]), query)
	return page, next, err
}

// project returns a message with only what the order compares.
func (o Order) project(m proto.Message) proto.Message {
	src := m.ProtoReflect()
	out := src.New()
	if f := src.Descriptor().Fields().ByName("name"); f != nil {
		out.Set(f, src.Get(f))
	}
	// Without these, and only with the name, an item that has changed its value would be looked for at
	// its new position.
	for _, k := range o.keys {
		copyPath(out, src, k.path)
	}
	return out.Interface()
}

// copyPath copies one field by its path. What is unset stays so.
func copyPath(dst, src protoreflect.Message, path []protoreflect.FieldDescriptor) {
	f := path[0]
	if !src.Has(f) {
		return
	}
	if len(path) == 1 {
		dst.Set(f, src.Get(f))
		return
	}
	copyPath(dst.Mutable(f).Message(), src.Get(f).Message(), path[1:])
}

// encodeToken makes a token: a checksum, and the last item as a message, in unpadded base64url.
func encodeToken(last proto.Message, query []string) (string, error) {
	content, err := proto.Marshal(last)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(checksum(content, query), content...)), nil
}

// decodeToken is the reverse. It refuses all that encodeToken did not make of this query.
func decodeToken[M proto.Message](token string, query []string) (M, error) {
	var none M
	wrong := errorf("The token is not one of this query. Send it as it was returned, with the same parent, filter and order; " +
		"or leave it out to begin again.")
	// Strict, so that one token has one text.
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < checksumSize || string(checksum(b[checksumSize:], query)) != string(b[:checksumSize]) {
		return none, wrong
	}
	// The type is that of the list, so a token of another list decodes to nothing that fits its query.
	last := none.ProtoReflect().New().Interface()
	if proto.Unmarshal(b[checksumSize:], last) != nil {
		return none, wrong
	}
	return last.(M), nil
}

// checksum binds a token to its query and makes any change to it visible.
func checksum(content []byte, query []string) []byte {
	h := sha256.New()
	// Each part is hashed by itself, so that two parts never look like one that is longer.
	for _, q := range query {
		sum := sha256.Sum256([]byte(q))
		h.Write(sum[:])
	}
	h.Write(content)
	return h.Sum(nil)[:checksumSize]
}
