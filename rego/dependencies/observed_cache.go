package dependencies

import (
	"strings"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/instrument"
)

// maxObservedBytes bounds the cache of what was written of texts, for all programs together.
const maxObservedBytes = 16 << 20

// observedBytes is about what an entry takes beside its texts.
const observedBytes = 160

// observedCache has what was written of texts that are given to the built-ins for JSON Web
// Tokens: a caller sends the same token with every request, and a look-up by the text costs
// less than the calls, whose own results are cached by a digest of all operands.
var observedCache = otter.Must(&otter.Options[observedKey, writtenOf]{
	MaximumWeight: maxObservedBytes,
	Weigher: func(k observedKey, t writtenOf) uint32 {
		return uint32(min(len(k.text)+len(t.written)+observedBytes, maxObservedBytes))
	},
})

// observedKey is a text, and the ID of the Observed.
type observedKey struct {
	id   uint64
	text string
}

// writtenOf is what is written of a text from (inclusive) until (exclusive), in
// nanoseconds since 1970.
type writtenOf struct {
	written     string
	from, until int64
}

// observedIDs is the last ID. They are never used again, and keep no program in memory.
var observedIDs atomic.Uint64

// cached is Text with a cache.
func (o *Observed) cached(b []byte, text string, at *instrument.Validity) []byte {
	key := observedKey{o.id, text}
	if hit, ok := observedCache.GetIfPresent(key); ok && at.Now >= hit.from && at.Now < hit.until {
		at.Until = min(at.Until, hit.until)
		return append(b, hit.written...)
	}
	begin := len(b)
	b, until := o.value(at.Context, b, ast.String(text), at.Now)
	at.Until = min(at.Until, until)
	if until > at.Now {
		key.text = strings.Clone(text) // it is a part of a request
		observedCache.Set(key, writtenOf{string(b[begin:]), at.Now, until})
	}
	return b
}
