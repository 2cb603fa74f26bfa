package redisstore

import (
	"cmp"
	"context"
	_ "embed"
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
	//go:embed publish.lua
	publishSource string
	publishScript = redis.NewScript(publishSource)

	//go:embed evidence.lua
	evidenceSource string
	evidenceScript = redis.NewScript(evidenceSource)

	//go:embed settle.lua
	settleSource string
	settleScript = redis.NewScript(settleSource)

	//go:embed drop.lua
	dropSource string
	dropScript = redis.NewScript(dropSource)
)

// Publish implements authz.Feed. A key of a wrong type is that of one experiment, mostly: then
// the evidence of each is published by itself.
func (s *Store) Publish(ctx context.Context, node string, evidence []authz.PublishedEvidence) (authz.Publication, error) {
	out, err := s.publish(ctx, node, evidence)
	if !errors.Is(err, ErrWrongType) || len(evidence) < 2 {
		return out, err
	}
	out.Failed = make(map[string]error)
	for i := range evidence {
		one, err := s.publish(ctx, node, evidence[i:i+1])
		switch {
		case errors.Is(err, ErrWrongType):
			out.Failed[evidence[i].Tally] = err
		case err != nil:
			return authz.Publication{}, err
		default:
			out.Nodes, out.Refused = one.Nodes, append(out.Refused, one.Refused...)
		}
	}
	if len(out.Failed) == len(evidence) {
		return authz.Publication{}, err
	}
	return out, nil
}

// publish publishes all of some evidence, or nothing.
func (s *Store) publish(ctx context.Context, node string, evidence []authz.PublishedEvidence) (authz.Publication, error) {
	k := keysOf(node)
	keys := []string{k.versions(), k.values(), k.heartbeats(authz.ResourceName(node).Location()), k.evidence()}
	args := []any{node, authz.NodeLifetime.Milliseconds(), s.now().UnixMilli()}
	for _, e := range evidence {
		tallies, values, over, serials, _ := k.evidenceOf(e.UID)
		keys = append(keys, tallies, values, over, serials)
		args = append(args, e.Experiment, e.UID, e.Tally, e.Serial, e.Value)
	}
	doing := "publishing the evidence of " + node
	var reply []any
	err := callOnce(ctx, doing, func(ctx context.Context) (err error) {
		reply, err = publishScript.Run(ctx, s.short, keys, args...).Slice()
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
func (s *Store) Evidence(ctx context.Context, name admin.EvidenceName, known map[string]int64) (admin.Evidence, error) {
	tallies, values, _, _, settled := keysOf(string(name.Experiment)).evidenceOf(name.UID)
	args := make([]any, 0, 2*len(known))
	for tally, serial := range known {
		args = append(args, tally, serial)
	}
	doing := "reading the evidence of " + string(name.Experiment)
	var reply []any
	err := call(ctx, doing, func(ctx context.Context) (err error) {
		reply, err = evidenceScript.Run(ctx, s.bulk, []string{tallies, values, settled}, args...).Slice()
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
	settled, errSettled := texts(reply[1])
	if err := cmp.Or(errVersion, errSettled); err != nil {
		return out, err
	}
	out.Version, out.Settled, out.Damage = decodeSettled(version, settled)
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

// decodeSettled decodes what was settled. Where one of the two entries is lost or damaged,
// the version is what settle.lua takes for it.
func decodeSettled(version, value []string) (int64, []byte, error) {
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
	if !isText || !isThere || !isAge {
		return r, false
	}
	serial, rest, _ := strings.Cut(entry, " ")
	_, node, ok := strings.Cut(rest, " ")
	n, errSerial := strconv.ParseInt(serial, 10, 64)
	ms, errAge := strconv.ParseInt(age, 10, 64)
	if !ok || node == "" || errors.Join(errSerial, errAge) != nil {
		return r, false
	}
	r = admin.TallyRecord{Node: node, Tally: tally, Serial: n, Age: time.Duration(ms) * time.Millisecond}
	if len(value) == 1 {
		text, ok := value[0].(string)
		if !ok {
			return r, false
		}
		r.Value = []byte(text)
	}
	return r, true
}

// Settle implements admin.Store.
func (s *Store) Settle(ctx context.Context, settlement admin.Settlement) error {
	keys, of := evidenceKeys(settlement.EvidenceName)
	args := []any{of, settlement.Version, settlement.Settled, authz.TallyKept.Milliseconds()}
	for _, t := range settlement.Tallies {
		args = append(args, t.Tally, t.Serial)
	}
	made := false
	err := callOnce(ctx, "settling the evidence of "+string(settlement.Experiment), func(ctx context.Context) (err error) {
		made, err = settleScript.Run(ctx, s.short, keys, args...).Bool()
		return err
	})
	if err == nil && !made {
		return admin.ErrChanged
	}
	return err
}

// EvidenceNames implements admin.Store.
func (s *Store) EvidenceNames(ctx context.Context, project string) ([]admin.EvidenceName, error) {
	var members []string
	err := call(ctx, "listing the evidence of "+project, func(ctx context.Context) (err error) {
		members, err = s.short.SMembers(ctx, projectKeys(project).evidence()).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(members)
	out := make([]admin.EvidenceName, len(members))
	for i, m := range members {
		experiment, uid, _ := strings.Cut(m, " ")
		out[i] = admin.EvidenceName{Experiment: admin.Key(experiment), UID: uid}
	}
	return out, nil
}

// DropEvidence implements admin.Store.
func (s *Store) DropEvidence(ctx context.Context, name admin.EvidenceName) error {
	keys, of := evidenceKeys(name)
	return call(ctx, "removing the evidence of "+string(name.Experiment), func(ctx context.Context) error {
		return dropScript.Run(ctx, s.short, keys, of).Err()
	})
}

// evidenceKeys returns the keys of settle.lua and drop.lua, and the member of the set
// evidence.
func evidenceKeys(name admin.EvidenceName) (keys []string, member string) {
	k := keysOf(string(name.Experiment))
	tallies, values, over, serials, settled := k.evidenceOf(name.UID)
	return []string{k.evidence(), tallies, values, over, settled, serials}, string(name.Experiment) + " " + name.UID
}
