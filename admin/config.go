package admin

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/audit"
	"understudy/admin/content"
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
	stored, err := s.ReadConfig(ctx, name)
	return stored.config, err
}

// UpdateConfig implements AIP-134 for the singleton. No sidecar needs to apply it, so
// it answers with the configuration.
func (s *Server) UpdateConfig(ctx context.Context, r *adminpb.UpdateConfigRequest) (*adminpb.Config, error) {
	given := r.GetConfig()
	if given == nil {
		return nil, apierror.Required("config", "Its name says what to update.")
	}
	name, err := configKind.parse("config.name", given.GetName())
	if err != nil {
		return nil, err
	}
	mask, err := content.ParseMask(r.GetUpdateMask(), given)
	if err != nil {
		return nil, err
	}
	for range MaxAttempts {
		u, err := s.configUpdate(ctx, name, given, mask)
		if err != nil || u.Write == nil || r.GetValidateOnly() {
			return u.config, err
		}
		_, err = s.commit(ctx, Txn{
			ID: NewID(), Project: name.Project(), Conditions: u.Conditions, Writes: []Write{u.Write},
		})
		if failed := (*ConditionError)(nil); asCondition(err, &failed) {
			continue
		}
		if err != nil {
			return nil, s.storeFailed(ctx, "updating "+string(name), err)
		}
		audit.FromContext(ctx).Changed(audit.Etags{Before: u.before, After: u.config.Etag})
		return u.config, nil
	}
	return nil, apierror.ConcurrentChange(name)
}

// StoredConfig is a configuration as it was read. Its record is empty if it was never
// set.
type StoredConfig struct {
	Name   Key
	record Record
	config *adminpb.Config
}

// Unchanged is the condition under which what was worked out from c still holds.
func (c StoredConfig) Unchanged() Condition {
	return UnchangedRecord(c.Name, c.record)
}

// Requirements returns what every commit in the location has to fulfil; nil if nothing.
func (c StoredConfig) Requirements() *adminpb.CommitRequirements {
	return c.config.GetCommitRequirements()
}

// Next returns the location that policies are promoted to; empty if there is none.
func (c StoredConfig) Next() Key { return Key(c.config.GetNextLocation()) }

// ReadConfig reads a location's configuration by its own name. One that was never set is
// no error: it names no next location. The error of one that cannot be read is DATA_LOSS.
func (s *Server) ReadConfig(ctx context.Context, name Key) (StoredConfig, error) {
	records, err := s.Get(ctx, name)
	if err != nil {
		return StoredConfig{}, err
	}
	return s.AsConfig(ctx, name, records[0])
}

// AsConfig is ReadConfig of a record that the caller has read together with others, at one
// instant.
func (s *Server) AsConfig(ctx context.Context, name Key, r Record) (StoredConfig, error) {
	config := &adminpb.Config{Name: string(name)}
	var err error
	if r.Key == "" {
		config.Etag, err = content.ConfigEtag(config)
	} else {
		config, err = Decode(r, &adminpb.Config{})
	}
	if err != nil {
		return StoredConfig{Name: name, record: r}, s.damaged(ctx, name, err)
	}
	return StoredConfig{name, r, config}, nil
}

// ConfigUpdate is an update of a configuration, worked out but not made.
type ConfigUpdate struct {
	// config is what it becomes, and before the etag that it has.
	config *adminpb.Config
	before string
	// Conditions are what it was worked out from: the configuration, and those of all
	// locations that lie ahead in the chain.
	Conditions []Condition
	// Write is nil if nothing changes.
	Write Write
}

// configUpdate works out an update. A configuration that cannot be read is replaced by an
// update of all fields, even if it would be the same: its record changes.
func (s *Server) configUpdate(
	ctx context.Context, name Key, given *adminpb.Config, mask aip.Mask,
) (ConfigUpdate, error) {
	stored, err := s.ReadConfig(ctx, name)
	damaged := err != nil && stored.record.Key != "" && mask.All()
	if damaged {
		stored.config = &adminpb.Config{Name: string(name), Etag: stored.record.Etag}
	} else if err != nil {
		return ConfigUpdate{}, err
	}
	if err := matchEtag(name, given.GetEtag(), stored.config.Etag); err != nil {
		return ConfigUpdate{}, err
	}
	config := proto.CloneOf(stored.config)
	if err := content.ApplyMask("config", mask, config, given); err != nil {
		return ConfigUpdate{}, err
	}
	if err := content.CheckRequirements("config.commit_requirements", config.CommitRequirements); err != nil {
		return ConfigUpdate{}, err
	}
	if proto.Equal(content.OfConfig(config), content.OfConfig(stored.config)) && !damaged {
		return ConfigUpdate{config: stored.config}, nil
	}
	return s.withContent(ctx, stored, config)
}

// WithNext works out the configuration with another next location, which may be none.
func (s *Server) WithNext(ctx context.Context, stored StoredConfig, next string) (ConfigUpdate, error) {
	config := proto.CloneOf(stored.config)
	config.NextLocation = next
	return s.withContent(ctx, stored, config)
}

// withContent works out the configuration with what a clone of it has for content. Where it
// leads to is checked again even if that is as it was: it costs little.
func (s *Server) withContent(ctx context.Context, stored StoredConfig, config *adminpb.Config) (ConfigUpdate, error) {
	if err := s.setNextEditor(ctx, stored, config); err != nil {
		return ConfigUpdate{}, err
	}
	chain, err := s.checkNext(ctx, Key(stored.Name.Location()), config.NextLocation)
	if err != nil {
		return ConfigUpdate{}, err
	}
	config.UpdateTime = timestamppb.New(s.now())
	if config.Etag, err = content.ConfigEtag(config); err != nil {
		return ConfigUpdate{}, err
	}
	write, err := NewPut(Key(config.Name), config.Etag, config)
	audit.FromContext(ctx).Fields(configChanges(stored.config, config))
	return ConfigUpdate{config, stored.config.Etag, append([]Condition{stored.Unchanged()}, chain...), write}, err
}

// setNextEditor notes who makes a configuration lead to another location. Who may not promote
// there may not have others do so: the error is PERMISSION_DENIED.
func (s *Server) setNextEditor(ctx context.Context, stored StoredConfig, config *adminpb.Config) error {
	switch next := config.GetNextLocation(); next {
	case stored.config.GetNextLocation():
		return nil
	case "":
		config.NextLocationEditor = ""
		return nil
	default:
		config.NextLocationEditor = access.FromContext(ctx).Member
		return s.mayPromoteTo(ctx, next)
	}
}

// checkNext checks that policies can be promoted from one location to another: they
// are of one project, and no way leads back, as far as the caller may see where ways lead.
// What others have configured elsewhere neither shows here nor forbids anything: each
// promotion is asked for by somebody, so that a circle that nobody sees does no harm. It
// returns the conditions under which that holds, so that two updates at the same time cannot
// close a circle.
func (s *Server) checkNext(ctx context.Context, from Key, next string) ([]Condition, error) {
	const field = "config.next_location"
	if next == "" {
		return nil, nil
	}
	to, err := locationKind.parse(field, next)
	if err != nil {
		return nil, err
	}
	if to.Project() != from.Project() {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, field, "It has to be a location of the same project, "+from.Project()+".")
	}
	if err := notReserved(field, to); err != nil {
		return nil, err
	}
	var conditions []Condition
	seen := make(map[Key]bool)
	for at := to; at != "" && !seen[at]; {
		if at == from {
			return nil, apierror.Invalid(apierror.ReasonInvalidField, field, "From there, policies would be promoted back to "+
				string(from)+". The locations have to form a chain.")
		}
		if readable, err := s.mayReadConfig(ctx, at); err != nil || !readable {
			return conditions, err
		}
		seen[at] = true
		stored, err := s.ReadConfig(ctx, ConfigOf(at))
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, stored.Unchanged())
		if len(conditions) >= maxChain {
			return nil, apierror.Invalid(apierror.ReasonInvalidField, field, fmt.Sprintf("With it, more than %d locations "+
				"would form one chain. Leave some out.", maxChain))
		}
		at = stored.Next()
	}
	return conditions, nil
}

// mayReadConfig reports whether the caller may read the configuration of a location.
func (s *Server) mayReadConfig(ctx context.Context, location Key) (bool, error) {
	if s.authorizer == nil {
		return true, nil
	}
	granted, err := s.authorizer.Permitted(ctx, string(ConfigOf(location)), []access.Permission{access.ConfigGet})
	return len(granted) > 0, err
}
