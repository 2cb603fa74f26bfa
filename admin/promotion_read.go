package admin

import (
	"context"

	"understudy/admin/apierror"
)

// readSeen reads a promotion of versions that a caller has seen. The error is
// FAILED_PRECONDITION if the location does not lead to the destination, and ABORTED if a
// policy is not what was seen.
func (s *Server) readSeen(ctx context.Context, from, to Key, seen []seenPolicy) (*Promotion, error) {
	names := make([]Key, len(seen))
	for i, policy := range seen {
		names[i] = policy.revision.Policy()
	}
	records, err := s.Get(ctx, append([]Key{ConfigOf(from)}, names...)...)
	if err != nil {
		return nil, err
	}
	p, err := s.beginPromotion(ctx, from, records[0])
	if err != nil {
		return nil, err
	}
	if p.To != to {
		return nil, apierror.Precondition(p.source.Name, apierror.ReasonNotNextLocation,
			"Its next_location is not '"+string(to)+"'. Read it again: policies are promoted to the next location alone.")
	}
	if err := s.addNamed(ctx, p, names, records[1:]); err != nil {
		return nil, err
	}
	for i, pair := range p.Pairs {
		if live := pair.Source.Policy.Revision; live != string(seen[i].revision) {
			return nil, apierror.RevisionNotLive(names[i], apierror.Versions{Given: string(seen[i].revision), Current: live})
		}
	}
	if err := s.readTargets(ctx, p, false); err != nil {
		return nil, err
	}
	for i, pair := range p.Pairs {
		if err := pair.matchTarget(seen[i].targetEtag); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// matchTarget checks the etag of the policy that was seen in the destination; empty if there
// was none.
func (p Promoted) matchTarget(given string) error {
	switch {
	case given == "" && p.Target.exists():
		return apierror.ExistsAborted(p.name, p.Target.Policy.Etag)
	case given != "" && !p.Target.exists():
		return apierror.MissingAborted(p.name, given)
	default:
		return matchEtag(p.name, given, p.Target.Policy.GetEtag())
	}
}

// ReadPromotion reads the configuration of a location, its policies, which are all
// that are live if no names are given, and those of the next location, whatever they are by
// now. With replace, what is soft-deleted there gives its ID up. The error is
// PERMISSION_DENIED if the caller may not promote to the next location.
func (s *Server) ReadPromotion(ctx context.Context, from Key, names []Key, replace bool) (*Promotion, error) {
	records, err := s.Get(ctx, append([]Key{ConfigOf(from)}, names...)...)
	if err != nil {
		return nil, err
	}
	p, err := s.beginPromotion(ctx, from, records[0])
	if err != nil {
		return nil, err
	}
	if err := s.mayPromoteTo(ctx, string(p.To)); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		err = s.addAll(ctx, p, from)
	} else {
		err = s.addNamed(ctx, p, names, records[1:])
	}
	if err != nil {
		return nil, err
	}
	return p, s.readTargets(ctx, p, replace)
}

// beginPromotion returns the promotion of no policies from a location with a configuration.
// The error is FAILED_PRECONDITION if that leads nowhere.
func (s *Server) beginPromotion(ctx context.Context, from Key, config Record) (*Promotion, error) {
	source, err := s.AsConfig(ctx, ConfigOf(from), config)
	if err != nil {
		return nil, err
	}
	if source.Next() == "" {
		return nil, apierror.Precondition(source.Name, apierror.ReasonNoNextLocation,
			"It names no next_location to promote to. Update it with one first.")
	}
	return &Promotion{To: source.Next(), source: source, conditions: []Condition{source.Unchanged()}}, nil
}

// addAll adds the live policies of a location. The conditions say that it has just
// these: one that is created meanwhile is promoted too.
func (s *Server) addAll(ctx context.Context, p *Promotion, from Key) error {
	records, err := s.List(ctx, Query{Collection: from.In("policies")})
	if err != nil {
		return err
	}
	for _, r := range records {
		source := s.AsPolicy(ctx, r)
		if source.Live() && source.Damage != nil {
			return source.Damage
		}
		p.conditions = append(p.conditions, source.Unchanged())
		if source.Live() {
			p.add(source)
		}
	}
	p.conditions = append(p.conditions, FewerThan{from.In("policies"), len(records) + 1})
	return nil
}

// addNamed adds the policies with the names, all of which have to be live.
func (s *Server) addNamed(ctx context.Context, p *Promotion, names []Key, records []Record) error {
	for i, r := range records {
		source := s.AsPolicy(ctx, r)
		switch {
		case !source.exists():
			return apierror.NotFound(names[i])
		case !source.Live():
			return policyDeleted(names[i])
		case source.Damage != nil:
			return source.Damage
		}
		p.conditions = append(p.conditions, source.Unchanged())
		p.add(source)
	}
	return nil
}

// add adds a live policy, to be promoted under its own ID.
func (p *Promotion) add(source StoredPolicy) {
	p.Pairs = append(p.Pairs, Promoted{Source: source, name: p.To.In("policies").Key(source.Record.Key.ID())})
}

// readTargets reads the configuration of the next location, and what of the policies is
// there. A policy that is soft-deleted there keeps its ID, so nothing can take its place
// unless replace says so.
func (s *Server) readTargets(ctx context.Context, p *Promotion, replace bool) (err error) {
	keys := []Key{ConfigOf(p.To)}
	for _, pair := range p.Pairs {
		keys = append(keys, pair.name)
	}
	records, err := s.Get(ctx, keys...)
	if err != nil {
		return err
	}
	if p.destination, err = s.AsConfig(ctx, keys[0], records[0]); err != nil {
		return err
	}
	// A requirement that is added meanwhile holds for this promotion, too.
	p.conditions = append(p.conditions, p.destination.Unchanged())
	for i, r := range records[1:] {
		if err := s.setTarget(ctx, p, &p.Pairs[i], r, replace); err != nil {
			return err
		}
	}
	return nil
}

// setTarget is readTargets of one policy, of which the record was read.
func (s *Server) setTarget(ctx context.Context, p *Promotion, pair *Promoted, r Record, replace bool) error {
	target := s.AsPolicy(ctx, r)
	switch {
	case !target.exists():
		p.conditions = append(p.conditions, Absent{pair.name})
		return nil
	case !target.Live() && !replace:
		return policyDeleted(pair.name)
	case target.Live() && target.Damage != nil:
		return target.Damage
	}
	p.conditions = append(p.conditions, target.Unchanged())
	if target.Live() {
		pair.Target = target
	}
	return nil
}
