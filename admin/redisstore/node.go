package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// nodeKept is the age from which on a node's report is dropped.
const nodeKept = time.Hour

var (
	heartbeatFunction = function{name: "heartbeat"}
	leaveFunction     = function{name: "leave"}
	nodesFunction     = function{name: "nodes", readOnly: true}
)

// Heartbeat implements authz.Feed.
func (s *Store) Heartbeat(ctx context.Context, node *adminpb.Node) (authz.Head, error) {
	node = proto.CloneOf(node)
	node.FunctionLibrary = library.name
	report, err := proto.Marshal(node)
	if err != nil {
		return authz.Head{}, fmt.Errorf("encoding %s: %w", node.Name, err)
	}
	k := keysOf(node.Name)
	keys := []string{k.nodes(), k.heartbeats(), k.changes(), k.watermarks(), k.watermark()}
	var reply []any
	err = call(ctx, "reporting "+node.Name, func(ctx context.Context) (err error) {
		reply, err = s.run(ctx, s.short, heartbeatFunction, keys, node.Name, report, nodeKept.Milliseconds(), node.Watermark).Slice()
		return err
	})
	if err != nil {
		return authz.Head{}, err
	}
	return decodeHeartbeat(reply)
}

// decodeHeartbeat decodes what heartbeat.lua returns.
func decodeHeartbeat(reply []any) (out authz.Head, err error) {
	if len(reply) != 3 {
		return authz.Head{}, errReply
	}
	if out.Cursor, err = decodeHead(reply[0]); err != nil {
		return authz.Head{}, err
	}
	text, _ := reply[1].(string)
	ahead, ok := reply[2].(int64)
	if out.Watermark, err = strconv.ParseInt(text, 10, 64); err != nil || !ok {
		return authz.Head{}, errReply
	}
	out.Ahead = int(ahead)
	return out, nil
}

// Leave implements authz.Feed.
func (s *Store) Leave(ctx context.Context, nodeName string) error {
	k := keysOf(nodeName)
	return call(ctx, "removing "+nodeName, func(ctx context.Context) error {
		return s.run(ctx, s.short, leaveFunction, []string{k.nodes(), k.heartbeats(), k.watermarks()}, nodeName).Err()
	})
}

// Nodes implements admin.Store.
func (s *Store) Nodes(ctx context.Context, location authz.Location) ([]admin.NodeReport, error) {
	k := keysOf(string(location))
	doing := "reading the nodes of " + string(location)
	var reply []any
	err := call(ctx, doing, func(ctx context.Context) (err error) {
		keys := []string{k.nodes(), k.heartbeats()}
		reply, err = s.run(ctx, s.short, nodesFunction, keys, nodeKept.Milliseconds()).Slice()
		return err
	})
	if err != nil {
		return nil, err
	}
	reports, err := decodeReports(location, reply)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", doing, admin.ErrUnavailable, err)
	}
	return reports, nil
}

// decodeReports decodes what nodes.lua returns, and sorts it: Redis keeps nodes by the
// time of their reports. One that cannot be decoded is not left out, for operations have
// to wait for it. A name of another location is left out: the users of sidecars write names.
func decodeReports(location authz.Location, reply []any) ([]admin.NodeReport, error) {
	fields, err := texts(reply)
	if err != nil || len(fields)%4 != 0 {
		return nil, errReply
	}
	var out []admin.NodeReport
	for ; len(fields) > 0; fields = fields[4:] {
		if authz.ResourceName(fields[0]).Location() != location {
			continue
		}
		r, err := decodeReport(fields[0], fields[1], fields[2], fields[3])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b admin.NodeReport) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return out, nil
}

// decodeReport decodes a report. One that is damaged is that of a node which has applied
// nothing.
func decodeReport(name, report, at, age string) (admin.NodeReport, error) {
	node := &adminpb.Node{}
	if err := proto.Unmarshal([]byte(report), node); err != nil || node.Name != name {
		node = &adminpb.Node{Name: name}
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return admin.NodeReport{}, errReply
	}
	old, err := strconv.ParseInt(age, 10, 64)
	if err != nil {
		return admin.NodeReport{}, errReply
	}
	node.HeartbeatTime = timestamppb.New(time.UnixMilli(ms))
	return admin.NodeReport{Node: node, Age: time.Duration(old) * time.Millisecond}, nil
}
