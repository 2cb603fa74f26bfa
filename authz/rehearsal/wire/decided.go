package wire

import (
	"encoding/binary"
	"time"

	"understudy/authz"
)

// Decided is the decision of a lane's policy on a request.
type Decided struct {
	Decision authz.Decision
	// Until is the moment from which it may be another one for the same input, as far as
	// that is known.
	Until time.Time
}

// The flags of a decision.
const (
	flagAllow = 1 << iota
	flagDefault
	flagPlain
	// flagAnswer says that there is more of an answer than a verdict.
	flagAnswer
)

// AppendDecided appends the form of a decision, which ParseDecided reads.
func AppendDecided(b []byte, d Decided) ([]byte, error) {
	var flags byte
	if d.Decision.Verdict == authz.Allow {
		flags |= flagAllow
	}
	if d.Decision.Default {
		flags |= flagDefault
	}
	if d.Decision.Plain {
		flags |= flagPlain
	}
	answers := hasAnswer(d.Decision)
	if answers {
		flags |= flagAnswer
	}
	b = binary.AppendVarint(append(b, flags), d.Until.UnixNano())
	b = appendText(appendText(appendText(b, string(d.Decision.Failure)), d.Decision.Rule), d.Decision.Reason)
	b, err := appendAny(b, d.Decision.Value)
	if err != nil || !answers {
		return b, err
	}
	return appendAnswer(b, d.Decision)
}

func hasAnswer(d authz.Decision) bool {
	return d.HTTPStatus != 0 || d.Body != "" || len(d.Headers) > 0 || len(d.ResponseHeaders) > 0 || len(d.RemoveHeaders) > 0 ||
		len(d.SetQuery) > 0 || len(d.RemoveQuery) > 0 || d.Metadata != nil
}

func appendAnswer(b []byte, d authz.Decision) ([]byte, error) {
	b = appendText(binary.AppendVarint(b, int64(d.HTTPStatus)), d.Body)
	for _, fields := range [][]authz.Field{d.Headers, d.ResponseHeaders, d.SetQuery} {
		b = binary.AppendUvarint(b, uint64(len(fields)))
		for _, f := range fields {
			b = appendText(appendText(b, f.Name), f.Value)
		}
	}
	for _, names := range [][]string{d.RemoveHeaders, d.RemoveQuery} {
		b = binary.AppendUvarint(b, uint64(len(names)))
		for _, name := range names {
			b = appendText(b, name)
		}
	}
	if b = appendBool(b, d.Metadata != nil); d.Metadata == nil {
		return b, nil
	}
	return appendMap(b, d.Metadata)
}

// ParseDecided reads what AppendDecided made.
func ParseDecided(payload []byte) (Decided, error) {
	d := decoder{rest: string(payload)}
	var out Decided
	flags := d.byte()
	out.Until = time.Unix(0, d.varint())
	if flags&flagAllow != 0 {
		out.Decision.Verdict = authz.Allow
	}
	out.Decision.Default, out.Decision.Plain = flags&flagDefault != 0, flags&flagPlain != 0
	out.Decision.Failure, out.Decision.Rule, out.Decision.Reason = authz.Failure(d.text()), d.text(), d.text()
	out.Decision.Value = d.any(0)
	if flags&flagAnswer != 0 {
		d.answer(&out.Decision)
	}
	if flags >= flagAnswer<<1 {
		d.fail()
	}
	return out, d.end()
}

func (d *decoder) answer(out *authz.Decision) {
	out.HTTPStatus, out.Body = int(d.varint()), d.text()
	for _, fields := range []*[]authz.Field{&out.Headers, &out.ResponseHeaders, &out.SetQuery} {
		for range d.count() {
			*fields = append(*fields, authz.Field{Name: d.text(), Value: d.text()})
		}
	}
	for _, names := range []*[]string{&out.RemoveHeaders, &out.RemoveQuery} {
		for range d.count() {
			*names = append(*names, d.text())
		}
	}
	if d.bool() {
		out.Metadata = d.fields(0)
	}
}
