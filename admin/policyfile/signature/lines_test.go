package signature_test

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"testing"
)

// joined is the signature in headers.
func joined(t testing.TB, h http.Header) []byte {
	t.Helper()
	text := ""
	for i := 1; h.Get(line(i)) != ""; i++ {
		text += h.Get(line(i))
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// setLines replaces the signature in headers.
func setLines(h http.Header, signature []byte) {
	for i := 1; h.Get(line(i)) != ""; i++ {
		h.Del(line(i))
	}
	text := base64.StdEncoding.EncodeToString(signature)
	for i := 1; text != ""; i++ {
		n := min(60, len(text))
		h.Set(line(i), text[:n])
		text = text[n:]
	}
}

func line(i int) string { return "X-Ops-Authorization-" + strconv.Itoa(i) }
