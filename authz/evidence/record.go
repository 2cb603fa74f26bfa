package evidence

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	evidencepb "understudy/authz/evidence/v1"
)

// The numbers of the fields that are read without decoding the message. What a group or an
// endpoint is about comes before its count.
const (
	fieldPairs     = 4
	fieldEarlier   = 5
	fieldEndpoints = 7
	fieldGroups    = 8

	fieldEndpointCount = 3
	fieldGroupCount    = 9
	fieldGroupCallers  = 10
	fieldGroupFirst    = 11
	fieldGroupLast     = 12
)

// errRecord says that bytes are no message.
var errRecord = errors.New("it is no message")

// records adds marshalled pairs to one pair. Most records of a location have the same groups
// and endpoints, and of those that are known only the counts are decoded: that is four times
// as fast.
type records struct {
	// groups and endpoints :: the beginning of the message, with what it is about → the sum.
	groups    map[string]*groupSum
	endpoints map[string]*knownEndpoint
}

type knownEndpoint struct {
	id    endpoint
	count int64
}

// AddRecord adds marshalled evidence, if it is of a content of the experiment. It returns the
// evidence without its pairs. After an error, the total is good for nothing.
func (t *Total) AddRecord(value []byte, experimentEtag string) (*evidencepb.Evidence, error) {
	head := &evidencepb.Evidence{}
	pairs, early, err := unmarshalBut(value, head, fieldPairs, fieldEarlier)
	if err != nil || head.GetExperimentEtag() != experimentEtag {
		return head, err
	}
	if t.sum.add(head); head.GetUid() != t.sum.head.Uid {
		return head, nil
	}
	for _, raw := range pairs {
		if err := t.addPair(raw, false); err != nil {
			return head, err
		}
	}
	for _, raw := range early {
		if err := t.addPair(raw, true); err != nil {
			return head, err
		}
	}
	return head, nil
}

// addPair adds a marshalled pair.
func (t *Total) addPair(raw []byte, early bool) error {
	m := &evidencepb.Pair{}
	endpoints, groups, err := unmarshalBut(raw, m, fieldEndpoints, fieldGroups)
	if err != nil {
		return err
	}
	var p *pair
	if early {
		p = t.sum.early()
	} else {
		p = t.sum.pair(m.GetPolicyEtag())
	}
	p.add(m)
	r := t.records[p]
	if r == nil {
		r = &records{groups: make(map[string]*groupSum), endpoints: make(map[string]*knownEndpoint)}
		t.records[p] = r
	}
	for _, raw := range endpoints {
		err = errors.Join(err, r.endpoint(raw))
	}
	for _, raw := range groups {
		err = errors.Join(err, r.group(p, raw))
	}
	return err
}

// endpoint adds a marshalled endpoint.
func (r *records) endpoint(raw []byte) error {
	about, ok := before(raw, fieldEndpointCount)
	if ok {
		if known := r.endpoints[string(raw[:about])]; known != nil {
			if n, ok := countOf(raw[about:], fieldEndpointCount); ok {
				known.count += n
				return nil
			}
		}
	}
	e := &evidencepb.Endpoint{}
	if err := proto.Unmarshal(raw, e); err != nil {
		return err
	}
	key := raw
	if ok {
		key = raw[:about]
	}
	if known := r.endpoints[string(key)]; known != nil {
		known.count += e.GetCount()
		return nil
	}
	r.endpoints[string(key)] = &knownEndpoint{endpoint{e.GetMethod(), e.GetPattern()}, e.GetCount()}
	return nil
}

// countOf returns the count of a message that has nothing else; 0 if it is not there.
func countOf(raw []byte, field protowire.Number) (int64, bool) {
	if len(raw) == 0 {
		return 0, true
	}
	number, kind, n := protowire.ConsumeTag(raw)
	if n < 0 || number != field || kind != protowire.VarintType {
		return 0, false
	}
	count, m := protowire.ConsumeVarint(raw[n:])
	return int64(count), m >= 0 && n+m == len(raw) //nolint:gosec // as protobuf has it
}

// group adds a marshalled group to a pair.
func (r *records) group(p *pair, raw []byte) error {
	about, ok := before(raw, fieldGroupCount)
	if ok {
		if known := r.groups[string(raw[:about])]; known != nil {
			if counted, ok := countedGroup(raw[about:]); ok {
				counted.addTo(known)
				return nil
			}
		}
	}
	g := &evidencepb.Group{}
	if err := proto.Unmarshal(raw, g); err != nil {
		return err
	}
	p.group(g)
	if ok {
		r.groups[string(raw[:about])] = p.groups[idOf(g)]
	}
	return nil
}

// counted is what a group has beside what it is about, without examples and causes.
type counted struct {
	count       int64
	callers     []byte
	first, last instant
}

// instant is a timestamp, which need not be made of every group; hasTime says that there is
// one.
type instant struct {
	hasTime bool
	seconds int64
	nanos   int32
}

func (t instant) message() *timestamppb.Timestamp {
	return &timestamppb.Timestamp{Seconds: t.seconds, Nanos: t.nanos}
}

// before reports whether a time is before another one.
func (t instant) before(other *timestamppb.Timestamp) bool {
	return t.seconds < other.GetSeconds() || t.seconds == other.GetSeconds() && t.nanos < other.GetNanos()
}

// after reports whether a time is after another one.
func (t instant) after(other *timestamppb.Timestamp) bool {
	return t.seconds > other.GetSeconds() || t.seconds == other.GetSeconds() && t.nanos > other.GetNanos()
}

// countedGroup decodes the fields of a group from its count on; it reports false if there are
// others than those of counted.
func countedGroup(raw []byte) (c counted, ok bool) {
	ok = true
	err := fields(raw, func(number protowire.Number, whole, content []byte) {
		switch number {
		case fieldGroupCount:
			var isCount bool
			c.count, isCount = countOf(whole, fieldGroupCount)
			ok = ok && isCount
		case fieldGroupCallers:
			c.callers, ok = content, ok && content != nil
		case fieldGroupFirst:
			c.first, ok = timeOf(content, ok)
		case fieldGroupLast:
			c.last, ok = timeOf(content, ok)
		default:
			ok = false
		}
	})
	return c, ok && err == nil
}

// timeOf decodes a time; it reports false if it cannot, or if ok is false.
func timeOf(raw []byte, ok bool) (t instant, _ bool) {
	t.hasTime = true
	for ok && len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 || kind != protowire.VarintType || number > 2 {
			return t, false
		}
		v, m := protowire.ConsumeVarint(raw[n:])
		if m < 0 {
			return t, false
		}
		if number == 1 {
			t.seconds = int64(v) //nolint:gosec // as protobuf has it
		} else {
			t.nanos = int32(v) //nolint:gosec // as protobuf has it
		}
		raw = raw[n+m:]
	}
	return t, ok
}

// addTo does what groupSum.add does.
func (c counted) addTo(g *groupSum) {
	g.Count += c.count
	g.callers.addStored(c.callers)
	if c.first.hasTime && (g.FirstTime == nil || c.first.before(g.FirstTime)) {
		g.FirstTime = c.first.message()
	}
	if c.last.hasTime && (g.LastTime == nil || c.last.after(g.LastTime)) {
		g.LastTime = c.last.message()
	}
}

// before returns where the fields from one on begin in a message. It reports false if the
// fields are not in order, which only other programs write.
func before(raw []byte, field protowire.Number) (at int, ok bool) {
	last := protowire.Number(0)
	for at < len(raw) {
		number, kind, n := protowire.ConsumeTag(raw[at:])
		if n < 0 || number < last {
			return 0, false
		}
		if number >= field {
			return at, true
		}
		m := protowire.ConsumeFieldValue(number, kind, raw[at+n:])
		if m < 0 {
			return 0, false
		}
		at, last = at+n+m, number
	}
	return at, true
}

// unmarshalBut decodes a message without the messages in two of its fields, and returns those
// as they are.
func unmarshalBut(raw []byte, m proto.Message, first, second protowire.Number) (firsts, seconds [][]byte, err error) {
	var rest []byte
	err = fields(raw, func(number protowire.Number, whole, content []byte) {
		switch {
		case content != nil && number == first:
			firsts = append(firsts, content)
		case content != nil && number == second:
			seconds = append(seconds, content)
		default:
			rest = append(rest, whole...)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return firsts, seconds, proto.Unmarshal(rest, m)
}

// fields visits the fields of a message: each as a whole, and what it contains if it is of
// bytes.
func fields(raw []byte, visit func(number protowire.Number, whole, content []byte)) error {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return errRecord
		}
		m := protowire.ConsumeFieldValue(number, kind, raw[n:])
		if m < 0 {
			return errRecord
		}
		var content []byte
		if kind == protowire.BytesType {
			// Of no bytes it is not nil.
			content, _ = protowire.ConsumeBytes(raw[n : n+m : n+m])
		}
		visit(number, raw[:n+m], content)
		raw = raw[n+m:]
	}
	return nil
}

// takeRecords adds what was counted of endpoints beside the sum.
func (t *Total) takeRecords() {
	for p, r := range t.records {
		for _, e := range r.endpoints {
			p.endpoints[e.id] += e.count
		}
	}
	clear(t.records)
}
