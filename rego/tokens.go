package rego

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/maypok86/otter/v2"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// tokenBytes bounds the answers about tokens that are remembered, in all programs
// together: a caller sends the same token with every request. It is room for several
// thousand tokens of the usual size. It counts bytes, since a token that nobody has
// checked yet may be as long as its sender likes.
const tokenBytes = 32 << 20

// termBytes is about what a term takes beside its text.
const termBytes = 128

// tokens remembers what the built-ins for JSON Web Tokens said: to decode a token or
// to check its signature is most of the work of many policies, and the answer is a
// function of the operands, which are compared by their SHA-256. So it is shared by
// all programs. It is not OPA's own cache for tokens, which on a hit does not look at
// the algorithm that is asked for.
var tokens = otter.Must(&otter.Options[[sha256.Size]byte, answer]{
	MaximumWeight: tokenBytes,
	Weigher:       func(_ [sha256.Size]byte, a answer) uint32 { return a.weight },
})

// answer is what a built-in said. It is right for moments from and until which it
// would be said again, in nanoseconds since 1970.
type answer struct {
	value       *ast.Term
	from, until int64
	// weight is about its size, in bytes.
	weight uint32
}

func newAnswer(value *ast.Term, from, until int64) answer {
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
	return answer{value, from, until, uint32(min(weight, math.MaxUint32))}
}

// tokenBuiltins are the built-ins whose answers are remembered. That of decode_verify
// has a bound in time.
var tokenBuiltins = tokenNames()

func tokenNames() map[string]bool {
	out := map[string]bool{ast.JWTDecode.Name: true, ast.JWTDecodeVerify.Name: true}
	for _, b := range []*ast.Builtin{
		ast.JWTVerifyRS256, ast.JWTVerifyRS384, ast.JWTVerifyRS512, ast.JWTVerifyPS256, ast.JWTVerifyPS384,
		ast.JWTVerifyPS512, ast.JWTVerifyES256, ast.JWTVerifyES384, ast.JWTVerifyES512, ast.JWTVerifyEdDSA,
		ast.JWTVerifyHS256, ast.JWTVerifyHS384, ast.JWTVerifyHS512,
	} {
		out[b.Name] = true
	}
	return out
}

// askToken substitutes a built-in for tokens.
func (s *substitutes) askToken(e *ast.Expr) {
	terms, ok := e.Terms.([]*ast.Term)
	if !ok || len(terms) < 2 {
		return
	}
	ref, ok := terms[0].Value.(ast.Ref)
	if !ok || !tokenBuiltins[ref.String()] {
		return
	}
	original := ast.BuiltinMap[ref.String()]
	s.replace(e, original, remembering(original.Name))
}

// remembering returns the built-in of a name, which remembers its answers and notes on
// the horizon when they end.
func remembering(name string) topdown.BuiltinFunc {
	ask := topdown.GetBuiltin(name)
	timed := name == ast.JWTDecodeVerify.Name
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		h := horizonOf(bctx)
		if h == nil {
			return ask(bctx, operands, iter)
		}
		key := tokenKey(name, operands)
		if known, ok := tokens.GetIfPresent(key); ok && h.now >= known.from && h.now < known.until {
			h.until = min(h.until, known.until)
			return iter(known.value)
		}
		// The answer's own horizon, which may be further than that of the evaluation.
		own := horizon{Context: h.Context, now: h.now, until: forever}
		if timed {
			noteToken(bctx, &own, operands[0])
		}
		h.until = min(h.until, own.until)
		return ask(bctx, operands, func(value *ast.Term) error {
			if own.until > own.now {
				tokens.Set(key, newAnswer(value, own.now, own.until))
			}
			return iter(value)
		})
	}
}

// tokenKey is what an answer is known by: the built-in and its operands, each with its
// kind and length before it, so that no two lists of operands are written alike.
func tokenKey(name string, operands []*ast.Term) [sha256.Size]byte {
	buffer := append(make([]byte, 0, 1024), name...)
	for _, o := range operands {
		kind, text := byte('v'), ""
		if s, ok := o.Value.(ast.String); ok {
			kind, text = 's', string(s)
		} else {
			text = o.Value.String()
		}
		buffer = append(buffer, kind)
		buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(text)))
		buffer = append(buffer, text...)
	}
	return sha256.Sum256(buffer)
}
