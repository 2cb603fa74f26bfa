package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/authz"
)

var (
	publishFunction  = function{name: "publish"}
	evidenceFunction = function{name: "evidence", readOnly: true}
	compactFunction  = function{name: "compact"}
	dropFunction     = function{name: "drop"}
)

// maxPublished is the number of tallies that publish.lua takes at once.
const maxPublished = 64

// Publish implements authz.Feed. A key of a wrong type is that of one experiment, mostly; it
// is an error if nothing could be published for it.
func (s *Store) Publish(ctx context.Context, node string, evidence []authz.PublishedEvidence) (authz.Publication, error) {
	if len(evidence) == 0 {
		return s.publish(ctx, node, nil)
	}
	out := authz.Publication{Failed: make(map[string]error)}
	for some := range slices.Chunk(evidence, maxPublished) {
		if err := s.publishSome(ctx, node, some, &out); err != nil {
			return authz.Publication{}, err
		}
	}
	for _, err := range out.Failed {
		if len(out.Failed) == len(evidence) {
			return authz.Publication{}, err
		}
	}
	return out, nil
}

// publishSome publishes some evidence, and adds what became of it. Where a key has the wrong
// type, the evidence of each tally is published by itself.
func (s *Store) publishSome(ctx context.Context, node string, evidence []authz.PublishedEvidence, out *authz.Publication) error {
	some, err := s.publish(ctx, node, evidence)
	switch {
	case err == nil:
		out.Nodes, out.Refused = some.Nodes, append(out.Refused, some.Refused...)
	case !errors.Is(err, ErrWrongType):
		return err
	case len(evidence) == 1:
		out.Failed[evidence[0].Tally] = err
	default:
		for one := range slices.Chunk(evidence, 1) {
			if err := s.publishSome(ctx, node, one, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish publishes all of some evidence, or nothing.
func (s *Store) publish(ctx context.Context, node string, evidence []authz.PublishedEvidence) (authz.Publication, error) {
	k := keysOf(node)
	experiments := partition(k.feed(""))
	keys := []string{experiments.versions(), experiments.values(), k.heartbeats(), k.evidence()}
	args := []any{node, authz.NodeLifetime.Milliseconds(), s.now().UnixMilli()}
	for _, e := range evidence {
		tallies, values, over, serials, _ := k.evidenceOf(e.UID)
		keys = append(keys, tallies, values, over, serials)
		args = append(args, e.Experiment, e.UID, e.Tally, e.Serial, e.Value)
	}
	doing := "publishing the evidence of " + node
	var reply []any
	err := callOnce(ctx, doing, func(ctx context.Context) (err error) {
		reply, err = s.run(ctx, s.short, publishFunction, keys, args...).Slice()
		return err
	})
	if err != nil {
		return authz.Publication{}, err
	}
	out, err := decodePublication(reply)
	if err != nil {
		return authz.Publication{}, fmt.Errorf("%s: %w: %w", doing, admin.ErrOutcomeUnknown, err)
	}
	return out, nil
}

// decodePublication decodes what publish.lua returns.
func decodePublication(reply []any) (out authz.Publication, err error) {
	if len(reply) != 2 {
		return out, errReply
	}
	nodes, ok := reply[0].(int64)
	if !ok {
		return out, errReply
	}
	out.Nodes = int(nodes)
	refused, err := texts(reply[1])
	if err != nil || len(refused)%2 != 0 {
		return out, errReply
	}
	for ; len(refused) > 0; refused = refused[2:] {
		serial, err := strconv.ParseInt(refused[1], 10, 64)
		if err != nil {
			serial = authz.SerialUnknown
		}
		out.Refused = append(out.Refused, authz.RefusedTally{Tally: refused[0], Serial: serial})
	}
	return out, nil
}

// Evidence implements admin.Store. The answer may be long.
func (s *Store) Evidence(ctx context.Context, name admin.EvidenceName) (admin.Evidence, error) {
	tallies, values, _, _, compacted := keysOf(string(name.Experiment)).evidenceOf(name.UID)
	doing := "reading the evidence of " + string(name.Experiment)
	var reply []any
	err := call(ctx, doing, func(ctx context.Context) (err error) {
		reply, err = s.run(ctx, s.bulk, evidenceFunction, []string{tallies, values, compacted}).Slice()
		return err
	})
	if err != nil {
		return admin.Evidence{}, err
	}
	out, err := decodeEvidence(reply)
	if err != nil {
		return admin.Evidence{}, fmt.Errorf("%s: %w: %w", doing, admin.ErrUnavailable, err)
	}
	return out, nil
}

// decodeEvidence decodes what evidence.lua returns.
func decodeEvidence(reply []any) (out admin.Evidence, err error) {
	if len(reply) != 3 {
		return out, errReply
	}
	version, errVersion := texts(reply[0])
	compacted, errCompacted := texts(reply[1])
	if err := cmp.Or(errVersion, errCompacted); err != nil {
		return out, err
	}
	out.Version, out.Compacted, out.Damage = decodeCompacted(version, compacted)
	fields, ok := reply[2].([]any)
	if !ok || len(fields)%4 != 0 {
		return out, errReply
	}
	out.Tallies = make([]admin.TallyRecord, 0, len(fields)/4)
	for ; len(fields) > 0; fields = fields[4:] {
		tally, ok := fields[0].(string)
		if !ok {
			return out, errReply
		}
		if r, whole := decodeTally(tally, fields[1:4]); whole {
			out.Tallies = append(out.Tallies, r)
		} else {
			out.Damaged = append(out.Damaged, tally)
		}
	}
	slices.Sort(out.Damaged)
	slices.SortFunc(out.Tallies, func(a, b admin.TallyRecord) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Tally, b.Tally))
	})
	return out, nil
}

// decodeCompacted decodes what was compacted. Where one of the two entries is lost or damaged,
// the version is what compact.lua takes for it.
func decodeCompacted(version, value []string) (int64, []byte, error) {
	if len(version) == 0 && len(value) == 0 {
		return 0, nil, nil
	}
	n, err := strconv.ParseInt(strings.Join(version, ""), 10, 64)
	if err != nil {
		return 0, nil, errDamaged
	}
	if len(value) == 0 {
		return n, nil, errDamaged
	}
	return n, []byte(value[0]), nil
}

// decodeTally decodes what evidence.lua returns of a tally: its entry, its value and its
// age. It reports false if it is damaged.
func decodeTally(tally string, fields []any) (r admin.TallyRecord, whole bool) {
	entry, isText := fields[0].(string)
	value, isThere := fields[1].([]any)
	age, isAge := fields[2].(string)
	if !isText || !isThere || len(value) != 1 || !isAge {
		return r, false
	}
	content, isContent := value[0].(string)
	serial, rest, _ := strings.Cut(entry, " ")
	_, node, ok := strings.Cut(rest, " ")
	n, errSerial := strconv.ParseInt(serial, 10, 64)
	ms, errAge := strconv.ParseInt(age, 10, 64)
	if !ok || !isContent || node == "" || errors.Join(errSerial, errAge) != nil {
		return r, false
	}
	return admin.TallyRecord{Node: node, Tally: tally, Serial: n, Value: []byte(content), Age: time.Duration(ms) * time.Millisecond}, true
}

// Compact implements admin.Store.
func (s *Store) Compact(ctx context.Context, compaction admin.Compaction) error {
	keys, of := evidenceKeys(compaction.EvidenceName)
	args := []any{of, compaction.Version, compaction.Compacted, authz.TallyKept.Milliseconds()}
	for _, t := range compaction.Tallies {
		args = append(args, t.Tally, t.Serial)
	}
	made := false
	err := callOnce(ctx, "compacting the evidence of "+string(compaction.Experiment), func(ctx context.Context) (err error) {
		made, err = s.run(ctx, s.short, compactFunction, keys, args...).Bool()
		return err
	})
	if err == nil && !made {
		return admin.ErrChanged
	}
	return err
}

// EvidenceNames implements admin.Store.
func (s *Store) EvidenceNames(ctx context.Context, project string) (out []admin.EvidenceName, err error) {
	locations, err := s.locations(ctx, project)
	if err != nil {
		return nil, err
	}
	var sets []redis.Cmder
	err = call(ctx, "listing the evidence of "+project, func(ctx context.Context) (err error) {
		sets, err = s.short.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range locations {
				p.SMembers(ctx, keysOfProject(project).location(id).evidence())
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, set := range sets {
		out = append(out, decodeNames(project, locations[i], set)...)
	}
	slices.SortFunc(out, func(a, b admin.EvidenceName) int {
		return cmp.Or(cmp.Compare(a.Experiment, b.Experiment), cmp.Compare(a.UID, b.UID))
	})
	return out, nil
}

// decodeNames decodes the set of a location. What names another location is left out: the
// users of sidecars write names, and what is done to the evidence of a name would be done
// there.
func decodeNames(project, location string, set redis.Cmder) (out []admin.EvidenceName) {
	of := authz.Location("projects/" + project + "/locations/" + location)
	for _, member := range set.(*redis.StringSliceCmd).Val() {
		experiment, uid, _ := strings.Cut(member, " ")
		if key := admin.Key(experiment); key.Location() == of {
			out = append(out, admin.EvidenceName{Experiment: key, UID: uid})
		}
	}
	return out
}

// DropEvidence implements admin.Store.
func (s *Store) DropEvidence(ctx context.Context, name admin.EvidenceName) error {
	keys, of := evidenceKeys(name)
	return call(ctx, "removing the evidence of "+string(name.Experiment), func(ctx context.Context) error {
		return s.run(ctx, s.short, dropFunction, keys, of).Err()
	})
}

// evidenceKeys returns the keys of compact.lua and drop.lua, and the member of the set
// evidence.
func evidenceKeys(name admin.EvidenceName) (keys []string, member string) {
	k := keysOf(string(name.Experiment))
	tallies, values, over, serials, compacted := k.evidenceOf(name.UID)
	return []string{k.evidence(), tallies, values, over, compacted, serials}, string(name.Experiment) + " " + name.UID
}
