// Package tokens has OPA's built-ins for JSON Web Tokens with a cache of their results: to decode a token or
// to check its signature is most of the work of many policies.
package tokens

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxTokenBytes bounds the cache of results about tokens, for all programs together: a
// caller sends the same token with every request. It is room for several thousand tokens
// of the usual size. It counts bytes, since a token that nobody has checked yet may be as
// long as its sender likes.
const maxTokenBytes = 32 << 20

// termBytes is about what a term takes next to its text.
const termBytes = 128

// tokenCache has results of the built-ins for JSON Web Tokens: to decode a token or to
// check its signature is most of the work of many policies, and the result is a function
// of the operands, which are compared by their SHA-256. So it is shared by all programs.
// It is not OPA's own cache for tokens, which on a hit does not look at the algorithm that
// is asked for.
var tokenCache = otter.Must(&otter.Options[[sha256.Size]byte, tokenResult]{
	MaximumWeight: maxTokenBytes,
	Weigher:       func(_ [sha256.Size]byte, r tokenResult) uint32 { return r.weight },
})

// tokenResult is what a built-in returned, and for how long it would return it again. The value is shared
// by evaluations, none of which changes it: terms of OPA are immutable.
type tokenResult struct {
	validity
	value *ast.Term
	// weight is about its size, in bytes.
	weight uint32
}

// newTokenResult weighs a value: an estimate is enough to bound the memory of the
// cache.
func newTokenResult(value *ast.Term, v validity) tokenResult {
	weight := 0
	ast.WalkTerms(value, func(t *ast.Term) bool {
		weight += termBytes
		switch v := t.Value.(type) {
		case ast.String:
			weight += len(v)
		case ast.Number:
			weight += len(v)
		}
		return false
	})
	return tokenResult{v, value, uint32(min(weight, math.MaxUint32))}
}

// IsToken reports whether results of a built-in are cached.
func IsToken(name string) bool {
	return name == ast.JWTDecode.Name || name == ast.JWTDecodeVerify.Name || strings.HasPrefix(name, "io.jwt.verify_")
}

// Builtin returns the built-in of a name with a cache of its results. Errors are not cached: a
// token that fails to decode is cheap to refuse.
//
// Only io.jwt.decode_verify reads the clock (exp, nbf), which the context has. The others are functions of
// their operands for all time.
func Builtin(name string) topdown.BuiltinFunc {
	original := topdown.GetBuiltin(name)
	timed := name == ast.JWTDecodeVerify.Name
	var last atomic.Pointer[operandDigest]
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		own := always
		if timed {
			var known bool
			if own, known = validityAt(bctx.Time); !known {
				return original(bctx, operands, iter)
			}
		}
		key := tokenKey(name, operands, &last)
		if hit, ok := tokenCache.GetIfPresent(key); ok && own.from >= hit.from && own.from < hit.until {
			return iter(hit.value)
		}
		if timed {
			own.endWith(bctx, operands[0])
		}
		return original(bctx, operands, func(value *ast.Term) error {
			if own.until > own.from {
				tokenCache.Set(key, newTokenResult(value, own))
			}
			return iter(value)
		})
	}
}

// operandDigest is an operand with the SHA-256 of its text. Terms are immutable.
type operandDigest struct {
	operand *ast.Term
	digest  string
}

// tokenKey is what a result is cached under: the built-in and its operands, each with its
// kind and length before it, so that no two lists of operands are written alike. The text
// of an operand that is no string is digested, and that is kept for the next call, which
// may have the same one.
func tokenKey(name string, operands []*ast.Term, last *atomic.Pointer[operandDigest]) [sha256.Size]byte {
	buffer := append(make([]byte, 0, 1024), name...)
	for _, o := range operands {
		kind, text := byte('v'), ""
		if s, ok := o.Value.(ast.String); ok {
			kind, text = 's', string(s)
		} else {
			known := last.Load()
			if known == nil || known.operand != o {
				digest := sha256.Sum256([]byte(o.Value.String()))
				known = &operandDigest{o, string(digest[:])}
				last.Store(known)
			}
			text = known.digest
		}
		buffer = append(buffer, kind)
		buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(text)))
		buffer = append(buffer, text...)
	}
	return sha256.Sum256(buffer)
}
