package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// nodeKept is the age from which on a node's report is dropped.
const nodeKept = time.Hour

// Load implements authz.Feed.
func (s *Store) Load(ctx context.Context, of authz.Scope) (authz.Update, error) {
	location := of.Location
	update := newUpdate(authz.Cursor{})
	now := s.now()
	err := s.view(ctx, "loading", func(tx *bbolt.Tx) error {
		p := openProject(tx, authz.ResourceName(location).Project())
		update.Cursor = p.head(location)
		var names []authz.PolicyName
		p.scan(newPattern(admin.Collection(location+"/policies")), "", now, func(e entry) bool {
			if name := authz.PolicyName(e.Key); of.Has(name) {
				names = append(names, name)
			}
			return true
		})
		for _, name := range names {
			update.Policies[name] = p.state(name, now)
		}
		p.scan(newPattern(admin.Collection(location+"/datasets")), "", now, func(e entry) bool {
			update.Datasets[authz.DatasetName(e.Key)] = authz.DecodeDatasetState(e.record().Resource())
			return true
		})
		return nil
	})
	return update, err
}

// Next implements authz.Feed.
func (s *Store) Next(ctx context.Context, of authz.Scope, after authz.Cursor) (authz.Update, error) {
	for {
		changed := s.changes()
		update, err := s.read(ctx, of, after)
		if err != nil || update.Cursor != after {
			return update, err
		}
		select {
		case <-ctx.Done():
			return authz.Update{}, ctx.Err()
		case <-changed:
		}
	}
}

// read returns the changes of a scope after a cursor; the update's cursor is the same if
// there are none.
func (s *Store) read(ctx context.Context, of authz.Scope, after authz.Cursor) (authz.Update, error) {
	update := newUpdate(after)
	now := s.now()
	trimmed := false
	err := s.view(ctx, "following", func(tx *bbolt.Tx) error {
		p := openProject(tx, authz.ResourceName(of.Location).Project())
		err := p.since(of, &update)
		if errors.Is(err, authz.ErrTrimmed) {
			trimmed = true
			return nil
		}
		for name := range update.Policies {
			update.Policies[name] = p.state(name, now)
		}
		for name := range update.Datasets {
			update.Datasets[name] = p.dataset(name, now)
		}
		return err
	})
	if trimmed {
		return authz.Update{}, authz.ErrTrimmed
	}
	return update, err
}

// newUpdate returns an update without changes.
func newUpdate(cursor authz.Cursor) authz.Update {
	return authz.Update{
		Cursor:   cursor,
		Policies: make(map[authz.PolicyName]authz.PolicyState), Datasets: make(map[authz.DatasetName]authz.DatasetState),
	}
}

// since names in an update what of a scope changed after its cursor, and moves that to the head. Each
// change says which one it follows; the first has to follow the cursor.
func (p *project) since(of authz.Scope, u *authz.Update) error {
	head := p.head(of.Location)
	if head == u.Cursor {
		return nil
	}
	if head.Sequence <= u.Cursor.Sequence {
		return authz.ErrTrimmed
	}
	c := p.changes.Bucket([]byte(of.Location)).Cursor()
	for key, value := c.Seek(encodeUint(u.Cursor.Sequence + 1)); key != nil; key, value = c.Next() {
		change := decodeChange(value)
		if change.Previous != u.Cursor {
			return authz.ErrTrimmed
		}
		for _, name := range change.Policies {
			if of.Has(name) {
				u.Policies[name] = authz.PolicyState{}
			}
		}
		for _, name := range change.Datasets {
			u.Datasets[name] = authz.DatasetState{}
		}
		u.Cursor = authz.Cursor{Sequence: decodeUint(key), Nonce: change.Nonce}
	}
	return nil
}

// dataset returns a dataset; none if it is deleted.
func (p *project) dataset(name authz.DatasetName, now time.Time) authz.DatasetState {
	e := get(p, admin.Key(name), now)
	if e.Key == "" {
		return authz.DatasetState{}
	}
	return authz.DecodeDatasetState(e.record().Resource())
}

// head is the cursor of the last change of a location; the zero cursor if it never had
// one. The last change is never trimmed, so it is there as long as the location is.
func (p *project) head(location authz.Location) authz.Cursor {
	if p.changes == nil {
		return authz.Cursor{}
	}
	return head(p.changes.Bucket([]byte(location)))
}

// state returns a policy with its ACTIVE experiments; one that is deleted has
// none of both.
func (p *project) state(name authz.PolicyName, now time.Time) authz.PolicyState {
	live := get(p, admin.Key(name), now)
	if live.Key == "" {
		return authz.PolicyState{}
	}
	var experiments []authz.StoredResource
	p.scan(newPattern(admin.Collection(name+"/experiments")), "", now, func(e entry) bool {
		experiments = append(experiments, e.record().Resource())
		return true
	})
	return authz.DecodePolicyState(live.record().Resource(), experiments)
}

// Heartbeat implements authz.Feed.
func (s *Store) Heartbeat(ctx context.Context, node *adminpb.Node) (authz.Head, error) {
	now := time.Now()
	value, err := encodeNode(node, now)
	if err != nil {
		return authz.Head{}, err
	}
	var head authz.Head
	err = s.change(ctx, "reporting a node", func(tx *bbolt.Tx) error {
		p, err := makeProject(tx, authz.ResourceName(node.Name).Project())
		if err != nil {
			return err
		}
		if err := p.forgetNodes(now); err != nil {
			return err
		}
		location := authz.ResourceName(node.Name).Location()
		head = authz.Head{Cursor: p.head(location), Watermark: p.watermark()}
		err = p.nodes.Put([]byte(node.Name), value)
		head.Ahead = p.ahead(location, head.Watermark, now)
		return err
	})
	if err != nil {
		return authz.Head{}, err
	}
	return head, nil
}

// ahead returns how many nodes of a location have reported a higher watermark.
func (p *project) ahead(location authz.Location, watermark int64, now time.Time) (n int) {
	for _, report := range p.reports(location, now) {
		if report.Node.GetWatermark() > watermark {
			n++
		}
	}
	return n
}

// forgetNodes removes the reports that are dropped anyway.
func (p *project) forgetNodes(now time.Time) error {
	var old [][]byte
	err := p.nodes.ForEach(func(name, value []byte) error {
		if len(value) < 8 || now.Sub(time.Unix(0, decodeUint(value[:8]))) >= nodeKept {
			old = append(old, bytes.Clone(name))
		}
		return nil
	})
	for _, name := range old {
		if err == nil {
			err = p.nodes.Delete(name)
		}
	}
	return err
}

// Leave implements authz.Feed.
func (s *Store) Leave(ctx context.Context, nodeName string) error {
	return s.change(ctx, "removing a node", func(tx *bbolt.Tx) error {
		p := openProject(tx, authz.ResourceName(nodeName).Project())
		if p.nodes == nil {
			return nil
		}
		return p.nodes.Delete([]byte(nodeName))
	})
}

// Nodes implements admin.Store.
func (s *Store) Nodes(ctx context.Context, location authz.Location) ([]admin.NodeReport, error) {
	var out []admin.NodeReport
	now := time.Now()
	err := s.view(ctx, "reading the nodes", func(tx *bbolt.Tx) error {
		out = openProject(tx, authz.ResourceName(location).Project()).reports(location, now)
		return nil
	})
	return out, err
}

// reports returns the reports of a location's nodes, without outdated ones.
func (p *project) reports(location authz.Location, now time.Time) (out []admin.NodeReport) {
	if p.nodes == nil {
		return nil
	}
	prefix := string(location) + "/nodes/"
	c := p.nodes.Cursor()
	for key, value := c.Seek([]byte(prefix)); strings.HasPrefix(string(key), prefix); key, value = c.Next() {
		if report := decodeNode(string(key), value, now); report.Age < nodeKept {
			out = append(out, report)
		}
	}
	return out
}

// encodeNode writes the time of the report in Unix nanoseconds, then the node.
func encodeNode(node *adminpb.Node, now time.Time) ([]byte, error) {
	value, err := proto.Marshal(node)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", node.Name, err)
	}
	return append(encodeUint(now.UnixNano()), value...), nil
}

// decodeNode decodes a report. One that is damaged is that of a node which has applied
// nothing; without its time it is too old to count.
func decodeNode(name string, b []byte, now time.Time) admin.NodeReport {
	var at time.Time
	node := &adminpb.Node{}
	if len(b) >= 8 {
		at = time.Unix(0, decodeUint(b[:8]))
		if err := proto.Unmarshal(b[8:], node); err != nil || node.Name != name {
			node = &adminpb.Node{Name: name}
		}
	}
	node.HeartbeatTime = timestamppb.New(at)
	// A clock that was set back makes no report come from the future.
	return admin.NodeReport{Node: node, Age: max(0, now.Sub(at))}
}
