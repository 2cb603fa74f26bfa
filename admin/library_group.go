package admin

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz"
)

// SetGroup makes a group, if there is none yet, and says where its policies are
// promoted to; empty means nowhere. It reports whether it made one. The error is
// INVALID_ARGUMENT if they would come back.
func (l *Library) SetGroup(ctx context.Context, group, next GroupID) (created bool, err error) {
	location := l.locationOf(group)
	err = l.commit(ctx, location, func(ctx context.Context) (Txn, error) {
		_, err := l.Group(ctx, group)
		if created = isNotFound(err); err != nil && !created {
			return Txn{}, err
		}
		return l.groupUpdate(ctx, location, next)
	})
	return created, err
}

func (l *Library) groupUpdate(ctx context.Context, location Key, next GroupID) (Txn, error) {
	stored, err := l.s.readConfig(ctx, configOf(location))
	if err != nil {
		return Txn{}, err
	}
	config := proto.CloneOf(stored.config)
	config.NextLocation = ""
	if next != "" {
		config.NextLocation = string(l.locationOf(next))
	}
	txn := Txn{
		Conditions: []Condition{stored.unchanged()},
		Writes:     []Write{present(l.groupKey(GroupID(location.id())))},
	}
	if config.NextLocation == stored.config.NextLocation {
		return txn, nil
	}
	chain, err := l.s.checkNext(ctx, location, config.NextLocation)
	if err != nil {
		return Txn{}, err
	}
	config.UpdateTime = timestamppb.New(l.s.now())
	if config.Etag, err = configEtag(config); err != nil {
		return Txn{}, err
	}
	write, err := put(config.Name, config.Etag, config)
	txn.Conditions = append(txn.Conditions, chain...)
	txn.Writes = append(txn.Writes, write)
	return txn, err
}

// Promote makes what is active in a group active in its next one: the policies that
// are named, or all, in one step or not at all. It returns the next group with the
// policies that were promoted. The error is FAILED_PRECONDITION if there is no next
// group, and NOT_FOUND if the group or one of the policies is not there.
func (l *Library) Promote(ctx context.Context, group GroupID, policies []authz.PolicyID) (Group, error) {
	if _, err := l.Group(ctx, group); err != nil {
		return Group{}, err
	}
	var names []Key
	for _, p := range policies {
		if name := l.policyKey(group, p); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	next := Group{Active: map[authz.PolicyID]RevisionID{}}
	_, err := l.s.mutate(ctx, false, func(ctx context.Context) (*change, error) {
		p, err := l.s.readPromotion(ctx, l.locationOf(group), names, true)
		if err != nil {
			return nil, err
		}
		c, err := l.s.promote(ctx, p, false)
		if err != nil {
			return nil, err
		}
		next.ID = GroupID(p.to.id())
		clear(next.Active)
		for _, pair := range p.pairs {
			next.Active[pair.source.id()] = pair.source.revision()
		}
		c.writes = append(c.writes, present(l.groupKey(next.ID)))
		return c, nil
	})
	return next, err
}
