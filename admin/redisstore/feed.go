package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

const (
	// blockFor is how long a follower waits before it asks again: short enough
	// that a connection that died unseen is found.
	blockFor = 2 * time.Second
	// changesAtOnce bounds the changes of one update.
	changesAtOnce = 1000
	// nodeKept is the age from which on a node's report is dropped.
	nodeKept = time.Hour
)

// Load implements authz.Feed.
func (s *Store) Load(ctx context.Context, location authz.Location) (authz.Update, error) {
	reply, err := s.read(ctx, projectOf(string(location)), []any{milliseconds(s.now()), "load", string(location)})
	if err != nil {
		return authz.Update{}, fmt.Errorf("loading: %w", err)
	}
	head, _ := reply[0].(string)
	update, err := parseStates(reply[1:])
	if err != nil {
		return authz.Update{}, err
	}
	for name, state := range update.Policies {
		if state.Policy == nil {
			delete(update.Policies, name)
		}
	}
	update.Cursor, err = parseCursor(head)
	return update, err
}

// Next implements authz.Feed.
func (s *Store) Next(ctx context.Context, location authz.Location, after authz.Cursor) (authz.Update, error) {
	for {
		if err := ctx.Err(); err != nil {
			return authz.Update{}, err
		}
		changes, err := s.wait(ctx, location, after)
		if err != nil {
			return authz.Update{}, err
		}
		cursor, names, err := follow(after, changes)
		if err != nil {
			return authz.Update{}, err
		}
		if len(changes) > 0 {
			return s.states(ctx, location, cursor, names)
		}
	}
}

// wait returns the changes after a cursor, or none if there are none for a while.
// A head that is not the cursor although nothing follows it means that the store
// has lost changes.
func (s *Store) wait(ctx context.Context, location authz.Location, after authz.Cursor) ([]redis.XMessage, error) {
	stream := base(projectOf(string(location))) + "changes:" + string(location)
	read, err := s.followers.XRead(ctx, &redis.XReadArgs{
		Streams: []string{stream, strconv.FormatInt(after.Sequence, 10) + "-0"},
		Count:   changesAtOnce, Block: blockFor,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, s.checkHead(ctx, location, after)
	}
	if err != nil {
		return nil, fmt.Errorf("following: %w", unavailable(ctx, err))
	}
	return read[0].Messages, nil
}

func (s *Store) checkHead(ctx context.Context, location authz.Location, after authz.Cursor) error {
	text, err := s.client.Get(ctx, base(projectOf(string(location)))+"head:"+string(location)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("following: %w", unavailable(ctx, err))
	}
	head, err := parseCursor(text)
	if err != nil {
		return err
	}
	// A head beyond the cursor is a change that came just now.
	if head != after && head.Sequence <= after.Sequence {
		return authz.ErrTrimmed
	}
	return nil
}

// follow returns the cursor behind some changes, and the policies that they
// touched. Each change names the one before it; the first has to follow the cursor.
func follow(cursor authz.Cursor, changes []redis.XMessage) (authz.Cursor, []string, error) {
	names := make(map[string]bool)
	for _, c := range changes {
		previous, _ := c.Values["previous"].(string)
		if previous != formatCursor(cursor) {
			return cursor, nil, authz.ErrTrimmed
		}
		number, _, _ := strings.Cut(c.ID, "-")
		nonce, _ := c.Values["nonce"].(string)
		var err error
		if cursor, err = parseCursor(number + "-" + nonce); err != nil {
			return cursor, nil, err
		}
		policies, _ := c.Values["policies"].(string)
		for _, name := range strings.Split(policies, "\n") {
			names[name] = true
		}
	}
	return cursor, slices.Sorted(maps.Keys(names)), nil
}

// states reads policies at one instant.
func (s *Store) states(
	ctx context.Context, location authz.Location, cursor authz.Cursor, names []string,
) (authz.Update, error) {
	args := []any{milliseconds(s.now()), "policies"}
	for _, n := range names {
		args = append(args, n)
	}
	reply, err := s.read(ctx, projectOf(string(location)), args)
	if err != nil {
		return authz.Update{}, fmt.Errorf("following: %w", err)
	}
	update, err := parseStates(reply)
	update.Cursor = cursor
	return update, err
}

// parseStates reads name, record and experiment records, one after the other.
func parseStates(reply []any) (authz.Update, error) {
	update := authz.Update{Policies: make(map[authz.PolicyName]authz.PolicyState)}
	for i := 0; i+2 < len(reply); i += 3 {
		name, _ := reply[i].(string)
		state, err := parseState(admin.Key(name), reply[i+1], reply[i+2])
		if err != nil {
			return update, err
		}
		update.Policies[authz.PolicyName(name)] = state
	}
	return update, nil
}

func parseState(name admin.Key, policy, experiments any) (authz.PolicyState, error) {
	live, err := parseRecord(name, policy)
	if err != nil || live.Key == "" {
		return authz.PolicyState{}, err
	}
	list, _ := experiments.([]any)
	var values [][]byte
	for _, e := range list {
		r, err := parseRecord(name+"/experiments/", e)
		if err != nil {
			return authz.PolicyState{}, err
		}
		values = append(values, r.Value)
	}
	return authz.DecodePolicyState(live.Value, values)
}

// Heartbeat implements authz.Feed.
func (s *Store) Heartbeat(ctx context.Context, node *adminpb.Node) (authz.Cursor, error) {
	value, err := proto.Marshal(node)
	if err != nil {
		return authz.Cursor{}, fmt.Errorf("encoding %s: %w", node.Name, err)
	}
	head, err := nodesScript.Run(ctx, s.client, nodeKeys(locationOf(node.Name)), "report", node.Name, value).Text()
	if err != nil {
		return authz.Cursor{}, fmt.Errorf("reporting a node: %w", unavailable(ctx, err))
	}
	return parseCursor(head)
}

// Leave implements authz.Feed.
func (s *Store) Leave(ctx context.Context, nodeName string) error {
	if err := s.client.HDel(ctx, nodeKeys(locationOf(nodeName))[0], nodeName).Err(); err != nil {
		return fmt.Errorf("removing a node: %w", unavailable(ctx, err))
	}
	return nil
}

// Nodes implements admin.Store.
func (s *Store) Nodes(ctx context.Context, location authz.Location) ([]admin.NodeReport, error) {
	reply, err := nodesScript.Run(ctx, s.client, nodeKeys(location), "list", int64(nodeKept/time.Second)).Slice()
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", unavailable(ctx, err))
	}
	text, _ := reply[0].(string)
	now, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	var out []admin.NodeReport
	for i := 2; i < len(reply); i += 2 {
		report, _ := reply[i].(string)
		node, err := parseNode(report, now)
		if err != nil {
			return nil, err
		}
		out = append(out, node)
	}
	slices.SortFunc(out, func(a, b admin.NodeReport) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	return out, nil
}

func nodeKeys(location authz.Location) []string {
	b := base(projectOf(string(location)))
	return []string{b + "nodes:" + string(location), b + "head:" + string(location)}
}

// parseNode reads a report: its time in Unix microseconds, a space, the node.
func parseNode(report string, now int64) (admin.NodeReport, error) {
	text, value, _ := strings.Cut(report, " ")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return admin.NodeReport{}, fmt.Errorf("the report of a node is damaged: %w", err)
	}
	node := &adminpb.Node{}
	if err := proto.Unmarshal([]byte(value), node); err != nil {
		return admin.NodeReport{}, fmt.Errorf("decoding a node: %w", err)
	}
	node.HeartbeatTime = timestamppb.New(time.UnixMicro(at))
	return admin.NodeReport{Node: node, Age: time.Duration(now-at) * time.Microsecond}, nil
}
