package admin

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz"
)

// SetGroup makes a group, if there is none yet, and says where its policies are
// promoted to; empty means nowhere. It returns the group and whether it made it. The
// error is INVALID_ARGUMENT if the policies would come back.
func (l *Library) SetGroup(ctx context.Context, group, next GroupID) (_ Group, created bool, err error) {
	var g storedGroup
	err = l.commit(ctx, l.groupKey(group), func(ctx context.Context) (_ Txn, err error) {
		if g, err = l.readGroup(ctx, group); err != nil {
			return Txn{}, err
		}
		created, g.Next = !g.exists(), next
		return l.groupUpdate(ctx, g, next)
	})
	return g.Group, created, err
}

// groupUpdate works out the change of a group's configuration.
func (l *Library) groupUpdate(ctx context.Context, g storedGroup, next GroupID) (Txn, error) {
	location := l.locationOf(g.ID)
	config := proto.CloneOf(g.config.config)
	config.NextLocation = ""
	if next != "" {
		config.NextLocation = string(l.locationOf(next))
	}
	txn := Txn{
		Conditions: []Condition{unchangedRecord(l.groupKey(g.ID), g.mark), g.config.unchanged()},
		Writes:     []Write{present(l.groupKey(g.ID))},
	}
	if config.NextLocation == g.config.config.NextLocation {
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
