package rego_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// epoch is the second about which the random inputs are.
const epoch = 1_700_000_000

// randomInput is an input of the random modules.
func randomInput(r *rand.Rand) map[string]any {
	number := func() any { return []any{r.IntN(4), "x", "y", true, 1.5, epoch + r.IntN(10)}[r.IntN(6)] }
	out := map[string]any{
		"a": map[string]any{"b": number(), "c": []string{"x", "y"}[r.IntN(2)]},
		"l": []any{number(), number(), map[string]any{"b": number()}},
		"o": map[string]any{"a": map[string]any{"b": number()}, "b": number()},
		"t": epoch + r.IntN(20), "token": token(r), "noise": r.Uint64(), "s": text(r), "p": texts(r),
	}
	out["bearer"] = "B " + out["token"].(string)
	for _, name := range []string{"a", "l", "o", "t", "token", "s", "p"} {
		if r.IntN(8) == 0 {
			delete(out, name)
		}
	}
	for _, name := range []string{"a", "o"} {
		object, ok := out[name].(map[string]any)
		switch {
		case ok && r.IntN(4) == 0:
			delete(object, "b")
		case ok && r.IntN(4) == 0:
			clear(object)
		}
	}
	return out
}

// text returns a text, or now and then something else.
func text(r *rand.Rand) any {
	return []any{"/x/" + fmt.Sprint(r.IntN(99)), "/x", "/X/y", "/x/y/" + fmt.Sprint(r.IntN(99)), "x", "y/x", "", "/z", 3, []any{"x"}, "x/y"}[r.IntN(11)]
}

// texts returns a list of texts, or now and then something else.
func texts(r *rand.Rand) any {
	out := []any{"x", fmt.Sprint("y", r.IntN(9)), "y", text(r), []any{text(r), "y"}}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	if r.IntN(8) == 0 {
		return "ab"
	}
	return out[:1+r.IntN(5)]
}

// token returns a token of the secret s that is or will be valid, or not.
func token(r *rand.Rand) string {
	claims := map[string]any{}
	if r.IntN(3) > 0 {
		claims["exp"] = epoch + r.IntN(20)
	}
	if r.IntN(3) == 0 {
		claims["nbf"] = float64(epoch) + 10*r.Float64()
	}
	if r.IntN(3) > 0 {
		claims["sub"] = text(r)
	}
	return signedToken(claims, []string{"s", "other"}[r.IntN(2)])
}

// signedToken returns a token of HS256.
func signedToken(claims map[string]any, secret string) string {
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return sign(`{"alg":"HS256","typ":"JWT"}`, string(text), secret)
}

// sign returns a token of HS256 with a header and a payload.
func sign(header, payload, secret string) string {
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(header)) + "." + part([]byte(payload))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + part(mac.Sum(nil))
}
