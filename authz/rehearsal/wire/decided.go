package wire

import (
	"encoding/binary"

	"understudy/authz"
)

// The flags of a decision.
const (
	flagAllow = 1 << iota
	flagDefault
	flagPlain
	// flagAnswer says that there is more of an answer than a verdict.
	flagAnswer
	flagLabels
	flagLabelsIgnored
	// flagLeaf says that the leaf of the request stands at the end.
	flagLeaf
)

// bytesPerLeaf is the size of a leaf.
const bytesPerLeaf = 16

// AppendDecided appends the form of a decision, which ParseDecided reads.
func AppendDecided(b []byte, d authz.Decision) ([]byte, error) {
	var flags byte
	if d.Verdict == authz.Allow {
		flags |= flagAllow
	}
	if d.Default {
		flags |= flagDefault
	}
	if d.Plain {
		flags |= flagPlain
	}
	answers := hasAnswer(d)
	if answers {
		flags |= flagAnswer
	}
	if len(d.Labels) > 0 {
		flags |= flagLabels
	}
	if d.LabelsIgnored {
		flags |= flagLabelsIgnored
	}
	leaf := d.Leaf()
	if leaf != (authz.Leaf{}) {
		flags |= flagLeaf
	}
	b = append(b, flags)
	for _, text := range []string{string(d.Failure), d.Rule, d.RulePath(), d.Reason} {
		b = appendText(b, text)
	}
	if len(d.Labels) > 0 {
		b = appendLabels(b, d.Labels)
	}
	b, err := appendAny(b, d.Value, 0)
	if err == nil && answers {
		b, err = appendAnswer(b, d)
	}
	if err == nil && flags&flagLeaf != 0 {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, leaf[0]), leaf[1])
	}
	return b, err
}

// CutLeaf takes the leaf from the form of a decision. What is left is the same for all requests that are
// decided alike, and still a form that ParseDecided reads.
func CutLeaf(payload []byte) (rest []byte, leaf authz.Leaf) {
	n := len(payload) - bytesPerLeaf
	if n < 1 || payload[0]&flagLeaf == 0 {
		return payload, leaf
	}
	leaf = authz.Leaf{binary.BigEndian.Uint64(payload[n:]), binary.BigEndian.Uint64(payload[n+8:])}
	payload[0] &^= flagLeaf
	return payload[:n], leaf
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
	return appendMap(b, d.Metadata, 0)
}

func appendLabels(b []byte, labels []authz.Label) []byte {
	b = binary.AppendUvarint(b, uint64(len(labels)))
	for _, l := range labels {
		b = appendText(appendText(b, l.Name), l.Value)
	}
	return b
}

// ParseDecided reads what AppendDecided made and CutLeaf left.
func ParseDecided(payload []byte) (authz.Decision, error) {
	d := decoder{rest: string(payload)}
	var out authz.Decision
	flags := d.byte()
	if flags&flagAllow != 0 {
		out.Verdict = authz.Allow
	}
	out.Default, out.Plain = flags&flagDefault != 0, flags&flagPlain != 0
	out.Failure, out.Rule = authz.Failure(d.text()), d.text()
	out = out.WithRulePath(d.text())
	out.Reason = d.text()
	if flags&flagLabels != 0 {
		out.Labels = d.labels()
	}
	out.LabelsIgnored = flags&flagLabelsIgnored != 0
	out.Value = d.any(0)
	if flags&flagAnswer != 0 {
		d.answer(&out)
	}
	if flags >= flagLeaf {
		d.fail()
	}
	return out, d.end()
}

// labels takes labels, which are within their bounds and in the order of their names.
func (d *decoder) labels() []authz.Label {
	n := d.count()
	if n == 0 || n > authz.MaxLabels {
		d.fail()
		return nil
	}
	out := make([]authz.Label, n)
	for i := range out {
		out[i] = authz.Label{Name: d.text(), Value: d.text()}
		if !out[i].Valid() || i > 0 && out[i-1].Name >= out[i].Name {
			d.fail()
			return nil
		}
	}
	return out
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
