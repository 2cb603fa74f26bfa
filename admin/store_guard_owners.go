package admin

import (
	"context"
	"slices"

	"cloud.google.com/go/iam/apiv1/iampb"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/protobuf/proto"

	"understudy/admin/access"
	"understudy/authz"
)

// readOwners reads who owns a project and its locations by bindings, if the watermark is the same
// before and after: so nothing that is remembered is of a store that has gone back meanwhile.
func (g *StoreGuard) readOwners(ctx context.Context, project string, watermark int64) error {
	g.mu.Lock()
	resources := []Key{Key("projects/" + project)}
	for location := range g.projectOf(project).reported {
		resources = append(resources, Key(location))
	}
	g.mu.Unlock()
	keys := make([]Key, len(resources))
	for i, resource := range resources {
		keys[i] = IAMPolicyOf(resource)
	}
	records, err := g.config.Store.Get(ctx, keys...)
	if err != nil {
		return err
	}
	after, err := g.config.Store.Watermark(ctx, project)
	if err != nil || after != watermark {
		return err
	}
	owners := make(map[Key][]string)
	for i, r := range records {
		owners[resources[i]] = ownersIn(r)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.projectOf(project); watermark >= p.ownersAt {
		p.owners, p.ownersAt, p.unread = owners, watermark, len(owners) <= len(p.reported)
	}
	return nil
}

// ownersIn returns the members with the role of an owner in the record of bindings. One that is not
// there, or cannot be read, has none.
func ownersIn(r Record) (members []string) {
	bound := &iampb.Policy{}
	if r.Key == "" || r.Damage != nil || proto.Unmarshal(r.Value, bound) != nil {
		return nil
	}
	for _, b := range bound.GetBindings() {
		if access.Role(b.GetRole()) == access.RoleOwner {
			members = append(members, b.GetMembers()...)
		}
	}
	return members
}

// owns reports whether the caller of the context owns all that a Txn changes: by the configuration,
// or by bindings that were read before the store went back, if no later change is known.
func (g *StoreGuard) owns(ctx context.Context, txn Txn) bool {
	who := access.FromContext(ctx)
	if !g.config.Authenticated || slices.ContainsFunc(g.config.Owners, who.Is) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.projectOf(txn.Project)
	if locations := locationsOf(txn); p.ownersAt < p.highest(locations) {
		return false
	}
	if slices.ContainsFunc(p.owners[Key("projects/"+txn.Project)], who.Is) {
		return true
	}
	return !slices.ContainsFunc(txn.Writes, func(w Write) bool {
		location := authz.ResourceName(nameOf(w)).Location()
		return !slices.ContainsFunc(p.owners[Key(location)], who.Is)
	})
}

// measure registers the metrics.
func (g *StoreGuard) measure() error {
	if g.config.Meters == nil {
		return nil
	}
	meter := g.config.Meters.Meter("understudy/admin")
	wentBack, err := meter.Int64ObservableGauge("understudy.store.went_back",
		metric.WithDescription("1 if the store has lost its last changes, as far as this server of the admin API knows; otherwise 0."))
	if err != nil {
		return err
	}
	lost, err := meter.Float64ObservableGauge("understudy.store.lost",
		metric.WithDescription("For how long the store has not answered this server of the admin API; 0 if it answers."), metric.WithUnit("s"))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		since, _ := g.StoreLost()
		o.ObserveFloat64(lost, since.Seconds())
		value := int64(0)
		if g.WentBack() {
			value = 1
		}
		o.ObserveInt64(wentBack, value)
		return nil
	}, wentBack, lost)
	return err
}
