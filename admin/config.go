package admin

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// maxChain is the number of locations that may be promoted through, from any one on.
const maxChain = 100

// GetConfig implements AIP-156: every location has a configuration, also one that
// nobody has set yet.
func (s *Server) GetConfig(ctx context.Context, r *adminpb.GetConfigRequest) (*adminpb.Config, error) {
	name, err := configKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	stored, err := s.readConfig(ctx, name)
	return stored.config, err
}

// UpdateConfig implements AIP-134 for the singleton. No sidecar needs to apply it, so
// it answers with the configuration.
func (s *Server) UpdateConfig(ctx context.Context, r *adminpb.UpdateConfigRequest) (*adminpb.Config, error) {
	given := r.GetConfig()
	if given == nil {
		return nil, required("config", "Its name says what to update.")
	}
	name, err := configKind.parse("config.name", given.GetName())
	if err != nil {
		return nil, err
	}
	mask, err := parseMask(r.GetUpdateMask(), given)
	if err != nil {
		return nil, err
	}
	for range maxAttempts {
		u, err := s.configUpdate(ctx, name, given, mask)
		if err != nil || u.write == nil || r.GetValidateOnly() {
			return u.config, err
		}
		_, err = s.store.Commit(ctx, Txn{
			ID: newID(), Project: name.project(), Conditions: u.conditions, Writes: []Write{u.write},
		})
		if failed := (*ConditionError)(nil); asCondition(err, &failed) {
			continue
		}
		if err != nil {
			return nil, s.storeFailed(ctx, "updating "+string(name), err)
		}
		return u.config, nil
	}
	return nil, concurrentChange(name)
}

// storedConfig is a configuration as it was read. Its record is empty if it was never
// set.
type storedConfig struct {
	name   Key
	record Record
	config *adminpb.Config
}

// unchanged is the condition under which what was worked out from c still holds.
func (c storedConfig) unchanged() Condition {
	if c.record.Key == "" {
		return Absent{c.name}
	}
	return Unchanged{c.name, c.record.Sequence}
}

// next returns the location that policies are promoted to; empty if there is none.
func (c storedConfig) next() Key { return Key(c.config.GetNextLocation()) }

func (s *Server) readConfig(ctx context.Context, name Key) (storedConfig, error) {
	records, err := s.store.Get(ctx, name)
	if err != nil {
		return storedConfig{}, s.storeFailed(ctx, "reading "+string(name), err)
	}
	return s.asConfig(ctx, name, records[0])
}

func (s *Server) asConfig(ctx context.Context, name Key, r Record) (storedConfig, error) {
	config := &adminpb.Config{Name: string(name)}
	var err error
	if r.Key == "" {
		config.Etag, err = configEtag(config)
	} else {
		config, err = decode(r, &adminpb.Config{})
	}
	if err != nil {
		return storedConfig{name: name, record: r}, s.damaged(ctx, name, err)
	}
	return storedConfig{name, r, config}, nil
}

// configUpdate is an update of a configuration, worked out but not made.
type configUpdate struct {
	config     *adminpb.Config
	conditions []Condition
	// write is nil if nothing changes.
	write Write
}

func (s *Server) configUpdate(
	ctx context.Context, name Key, given *adminpb.Config, mask aip.Mask,
) (configUpdate, error) {
	stored, err := s.readConfig(ctx, name)
	damaged := err != nil && stored.record.Key != "" && mask.All()
	if damaged {
		stored.config = &adminpb.Config{Name: string(name), Etag: stored.record.Etag}
	} else if err != nil {
		return configUpdate{}, err
	}
	if err := matchEtag(name, given.GetEtag(), stored.config.Etag); err != nil {
		return configUpdate{}, err
	}
	config := proto.CloneOf(stored.config)
	if err := applyMask("config", mask, config, given); err != nil {
		return configUpdate{}, err
	}
	if config.NextLocation == stored.config.NextLocation && !damaged {
		return configUpdate{config: stored.config}, nil
	}
	chain, err := s.checkNext(ctx, Key(name.location()), config.NextLocation)
	if err != nil {
		return configUpdate{}, err
	}
	config.UpdateTime = timestamppb.New(s.now())
	if config.Etag, err = configEtag(config); err != nil {
		return configUpdate{}, err
	}
	write, err := put(config.Name, config.Etag, config)
	return configUpdate{config, append([]Condition{stored.unchanged()}, chain...), write}, err
}

// checkNext checks that policies can be promoted from one location to another: they
// are of one project, and no way leads back. It returns the conditions under which
// that holds, so that two updates at the same time cannot close a circle.
func (s *Server) checkNext(ctx context.Context, from Key, next string) ([]Condition, error) {
	const field = "config.next_location"
	if next == "" {
		return nil, nil
	}
	to, err := locationKind.parse(field, next)
	if err != nil {
		return nil, err
	}
	if to.project() != from.project() {
		return nil, invalid(reasonInvalidField, violation{field, "It has to be a location of the same project, " + from.project() + "."})
	}
	if err := notReserved(field, to); err != nil {
		return nil, err
	}
	var conditions []Condition
	for at := to; at != ""; {
		if at == from {
			return nil, invalid(reasonInvalidField, violation{field, "From there, policies would be promoted back to " +
				string(from) + ". The locations have to form a chain."})
		}
		stored, err := s.readConfig(ctx, configOf(at))
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, stored.unchanged())
		if len(conditions) >= maxChain {
			return nil, invalid(reasonInvalidField, violation{field, fmt.Sprintf("With it, more than %d locations "+
				"would form one chain. Leave some out.", maxChain)})
		}
		at = stored.next()
	}
	return conditions, nil
}
