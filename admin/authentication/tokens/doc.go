// Package tokens reads files of token digests, follows them as they change, and makes tokens.
//
// A token file has a line for each token: NAME, the SHA-256 of the token in hex and, if it
// expires, when that is (RFC 3339); empty lines and lines that begin with # are comments. It holds no secret: a token of 256 random
// bits cannot be found by its digest. A name may have several lines, so that a token can be
// replaced without a moment in which none is good.
//
// A file that others can write is refused: who adds a line is known by it. One that they can read
// is refused too, although it holds no secret: it was hardly meant.
//
// A bad file changes nothing, for it was hardly meant. An empty one ends its tokens at once. One
// that is gone ends them after a minute: anyone who deletes it means that, but what replaces it
// may leave a moment without.
package tokens
