package wire

import (
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	wirepb "understudy/authz/rehearsal/wire/v1"
)

// The first byte of a decision says whether the leaf of its request follows the message.
const (
	withoutLeaf = iota
	withLeaf
)

// bytesPerLeaf is the size of a leaf.
const bytesPerLeaf = 16

// AppendDecided appends the form of a decision, which ParseDecided reads. Equal decisions are equal bytes, but
// for their leaves.
func AppendDecided(b []byte, d authz.Decision) ([]byte, error) {
	m, err := decisionMessage(d)
	if err != nil {
		return nil, err
	}
	form, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{withoutLeaf}, m)
	return AppendLeaf(b, form, d.Leaf()), err
}

// AppendLeaf appends the form of a decision that has no leaf, with that of a request.
func AppendLeaf(b, form []byte, leaf authz.Leaf) []byte {
	if leaf == (authz.Leaf{}) {
		return append(b, form...)
	}
	b = append(append(b, withLeaf), form[1:]...)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, leaf[0]), leaf[1])
}

// CutLeaf takes the leaf from the form of a decision. What is left is the same for all requests that are
// decided alike, and still a form that ParseDecided reads.
func CutLeaf(payload []byte) (rest []byte, leaf authz.Leaf) {
	n := len(payload) - bytesPerLeaf
	if n < 1 || payload[0] != withLeaf {
		return payload, leaf
	}
	leaf = authz.Leaf{binary.BigEndian.Uint64(payload[n:]), binary.BigEndian.Uint64(payload[n+8:])}
	payload[0] = withoutLeaf
	return payload[:n], leaf
}

func decisionMessage(d authz.Decision) (m *wirepb.Decision, err error) {
	m = &wirepb.Decision{
		Allow: d.Effect == authz.Allow, ByDefault: d.Default, Plain: d.Plain, Failure: []byte(d.Failure),
		Rule: []byte(d.Rule), RulePath: []byte(d.RulePath()), Reason: []byte(d.Reason), LabelsIgnored: d.LabelsIgnored,
		HttpStatus: int64(d.HTTPStatus), Body: []byte(d.Body), Headers: fieldMessages(d.Headers), ResponseHeaders: fieldMessages(d.ResponseHeaders),
		RemoveHeaders: nameMessages(d.RemoveHeaders), SetQuery: fieldMessages(d.SetQuery), RemoveQuery: nameMessages(d.RemoveQuery),
	}
	for _, l := range d.Labels {
		m.Labels = append(m.Labels, &wirepb.Field{Name: []byte(l.Name), Value: []byte(l.Value)})
	}
	if m.Value, err = valueMessage(d.Value, 0); err == nil && d.Metadata != nil {
		m.Metadata, err = valueMessage(d.Metadata, 0)
	}
	return m, err
}

func fieldMessages(fields []authz.Field) (out []*wirepb.Field) {
	for _, f := range fields {
		out = append(out, &wirepb.Field{Name: []byte(f.Name), Value: []byte(f.Value)})
	}
	return out
}

func nameMessages(names []string) (out [][]byte) {
	for _, name := range names {
		out = append(out, []byte(name))
	}
	return out
}

// ParseDecided reads what AppendDecided made and CutLeaf left.
func ParseDecided(payload []byte) (authz.Decision, error) {
	m := &wirepb.Decision{}
	if len(payload) == 0 || payload[0] != withoutLeaf || unmarshal(payload[1:], m) != nil {
		return authz.Decision{}, ErrForm
	}
	d := authz.Decision{
		Default: m.GetByDefault(), Plain: m.GetPlain(), Failure: authz.Failure(m.GetFailure()), Rule: string(m.GetRule()),
		Reason: string(m.GetReason()), LabelsIgnored: m.GetLabelsIgnored(), HTTPStatus: int(m.GetHttpStatus()), Body: string(m.GetBody()),
		Headers: fieldsOf(m.GetHeaders()), ResponseHeaders: fieldsOf(m.GetResponseHeaders()), RemoveHeaders: namesOf(m.GetRemoveHeaders()),
		SetQuery: fieldsOf(m.GetSetQuery()), RemoveQuery: namesOf(m.GetRemoveQuery()),
	}
	if m.GetAllow() {
		d.Effect = authz.Allow
	}
	value, err := valueOf(m.GetValue(), 0)
	metadata, other := valueOf(m.GetMetadata(), 0)
	labels, valid := labelsOf(m.GetLabels())
	if err != nil || other != nil || !valid {
		return authz.Decision{}, ErrForm
	}
	d.Value, d.Labels = value, labels
	if d.Metadata, valid = metadata.(map[string]any); !valid && m.GetMetadata() != nil {
		return authz.Decision{}, ErrForm
	}
	return d.WithRulePath(string(m.GetRulePath())), nil
}

func fieldsOf(fields []*wirepb.Field) (out []authz.Field) {
	for _, f := range fields {
		out = append(out, authz.Field{Name: string(f.GetName()), Value: string(f.GetValue())})
	}
	return out
}

func namesOf(names [][]byte) (out []string) {
	for _, name := range names {
		out = append(out, string(name))
	}
	return out
}

// labelsOf returns labels, and whether they are within their bounds and in the order of their names.
func labelsOf(fields []*wirepb.Field) (out []authz.Label, valid bool) {
	for i, f := range fields {
		l := authz.Label{Name: string(f.GetName()), Value: string(f.GetValue())}
		if i >= authz.MaxLabels || !l.Valid() || i > 0 && out[i-1].Name >= l.Name {
			return nil, false
		}
		out = append(out, l)
	}
	return out, true
}
