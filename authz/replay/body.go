package replay

import (
	"encoding/base64"

	"understudy/authz/extauthz/input"
)

// hasDuplicateKey reports whether a document has a JSON body, as it was sent, of which an object has a key
// twice. Its parsed_body does not say so: there the last one counted.
func (in recordedInput) hasDuplicateKey() bool {
	sent := input.SentBody{Text: in.http.At("body").Text(), ContentType: in.http.At("headers", "content-type").Text()}
	if sent.Text == "" {
		raw, err := base64.StdEncoding.DecodeString(in.http.At("rawBody").Text())
		if err != nil {
			return false
		}
		sent.Bytes = string(raw)
	}
	return input.HasDuplicateKey(sent)
}
