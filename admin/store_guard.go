package admin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/background"
)

// A store may come back with older data: from an older dump or backup, or as a replica that lagged.
// Its bindings may give back a role that was taken away, its configuration may require less of a
// commit, and neither shows that it is older. So each Txn whose loss matters raises the watermark of
// its project, and processes remember the highest that they have seen: those that serve the admin
// API in memory (StoreGuard), sidecars in their snapshot files, too, and each reports it with its
// node. While the store's watermark is lower than one that is known, only owners change something.
// Their changes leave the watermark as it is, so that every process sees the same, and only
// `understudy restore` ends that.

// mayBeLost are the collections whose changes raise no watermark: what a lost one means is seen,
// and it changes nothing that is enforced.
var mayBeLost = map[string]bool{"operations": true, "experiments": true, "acceptances": true, "bases": true}

// raisesWatermark reports whether the loss of some writes matters.
func raisesWatermark(writes []Write) bool {
	return slices.ContainsFunc(writes, func(w Write) bool {
		segments := strings.Split(nameOf(w), "/")
		for i := 0; i < len(segments); i += 2 {
			if mayBeLost[segments[i]] {
				return false
			}
		}
		return true
	})
}

// nameOf returns the record or the collection that a write is about; empty if that is a content.
func nameOf(w Write) string {
	switch w := w.(type) {
	case Put:
		return string(w.Key)
	case Delete:
		return string(w.Key)
	case DeleteCollection:
		return string(w.Collection)
	case TrimCollection:
		return string(w.Collection)
	case ExpireCollection:
		return string(w.Collection)
	default:
		return ""
	}
}

// StoreGuardConfig is what a StoreGuard needs.
type StoreGuardConfig struct {
	// Store is watched, and takes the changes. Required.
	Store Store
	// Location has the nodes whose reports count for the whole project. Reports of the nodes of another
	// location count for changes in that one: anyone with the Redis user of its sidecars can report
	// anything. Required.
	Location authz.Location
	// Authenticated says that it is known who calls. Without it everybody may everything, and counts
	// as an owner.
	Authenticated bool
	// Owners are members who own everything, whatever is bound.
	Owners []string
	// Logger gets the news. Nil means none.
	Logger *slog.Logger
	// Meters makes the metric. Nil means none.
	Meters metric.MeterProvider
}

// StoreGuard keeps changes out of a store that has gone back. It is safe for concurrent use.
type StoreGuard struct {
	config StoreGuardConfig

	mu sync.Mutex
	// projects :: ID → what is known of it; those of the configuration and of all changes.
	projects map[string]*guardedProject
	// lost is why the store did not answer the last look, and lostSince the first look without an answer.
	lost      error
	lostSince time.Time
}

// guardedProject is what is known of a project. Its watermarks never sink.
type guardedProject struct {
	// known is the highest watermark that this process has read or raised.
	known int64
	// reported :: location → the highest that its nodes have reported.
	reported map[authz.Location]int64
	// owners :: the project, or a location → members who own it by bindings, which were read when
	// the watermark was ownersAt.
	owners   map[Key][]string
	ownersAt int64
	// unread says that there is a location whose bindings have not been read.
	unread bool
	// wentBack says that the store's watermark was lower than one of the others when it was read last.
	wentBack bool
}

// NewStoreGuard returns a guard, which Watch has to keep up to date.
func NewStoreGuard(c StoreGuardConfig) (*StoreGuard, error) {
	if c.Store == nil || c.Location == "" {
		return nil, errors.New("admin: StoreGuardConfig.Store and Location are required")
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	g := &StoreGuard{config: c, projects: make(map[string]*guardedProject)}
	g.projectOf(Key(c.Location).Project(), c.Location)
	return g, g.measure()
}

// projectOf returns what is known of a project, and has nodes and bindings of these locations read
// from now on. The caller holds mu, or nobody else has the guard yet.
func (g *StoreGuard) projectOf(id string, locations ...authz.Location) *guardedProject {
	p := g.projects[id]
	if p == nil {
		p = &guardedProject{reported: make(map[authz.Location]int64)}
		g.projects[id] = p
	}
	for _, location := range locations {
		if _, known := p.reported[location]; !known {
			p.reported[location], p.unread = 0, true
		}
	}
	return p
}

// highest returns the highest watermark that is known of a project where some of its locations are concerned.
func (p *guardedProject) highest(locations []authz.Location) int64 {
	highest := p.known
	for _, location := range locations {
		highest = max(highest, p.reported[location])
	}
	return highest
}

// WentBack reports whether the store is known to have lost its last changes.
func (g *StoreGuard) WentBack() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.projects {
		if p.wentBack {
			return true
		}
	}
	return false
}

// guardEvery is the mean time between two looks at the store.
const guardEvery = 3 * time.Second

// Watch reads watermarks and bindings again and again until ctx is done. It returns nil. A store
// that does not answer is asked again: what is known stays so.
func (g *StoreGuard) Watch(ctx context.Context) error {
	for {
		g.mu.Lock()
		ids := slices.Sorted(maps.Keys(g.projects))
		g.mu.Unlock()
		var lost error
		for _, id := range ids {
			if err := g.look(ctx, id); err != nil && ctx.Err() == nil {
				lost = err
				g.config.Logger.DebugContext(ctx, "the watermark of the store could not be read", "project", id, "error", err)
			}
		}
		g.noteLost(lost)
		if !background.Sleep(ctx, guardEvery) {
			return nil
		}
	}
}

// noteLost notes whether the store has answered; the error says why it has not.
func (g *StoreGuard) noteLost(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.lost == nil {
		g.lostSince = time.Now()
	}
	g.lost = err
}

// StoreLost returns for how long the store has not answered, and why; nil if it answers.
func (g *StoreGuard) StoreLost() (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil {
		return 0, nil
	}
	return time.Since(g.lostSince), g.lost
}

// look reads the watermark of a project, what nodes report of it, and who owns it.
func (g *StoreGuard) look(ctx context.Context, project string) error {
	g.mu.Lock()
	locations := slices.Sorted(maps.Keys(g.projectOf(project).reported))
	g.mu.Unlock()
	if err := g.readReports(ctx, project, locations); err != nil {
		return err
	}
	stored, err := g.config.Store.Watermark(ctx, project)
	if err != nil {
		return err
	}
	return g.note(ctx, project, stored)
}

// note notes the watermark that the store has of a project, and reads who owns the project, if that may be new.
func (g *StoreGuard) note(ctx context.Context, project string, stored int64) error {
	if !g.compare(project, stored) {
		return nil
	}
	return g.readOwners(ctx, project, stored)
}

// compare compares the watermark that the store has of a project with what is known, and logs when the store has gone
// back, or has not any more. It reports whether it has to be read who owns the project.
func (g *StoreGuard) compare(project string, stored int64) (read bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.projectOf(project)
	p.known = max(p.known, stored)
	known, before := p.highest(slices.Collect(maps.Keys(p.reported))), p.wentBack
	p.wentBack = stored > 0 && stored < known
	switch {
	case p.wentBack && !before:
		g.config.Logger.Error("the store has gone back: it has lost its last changes. "+authz.WentBackHelp, "project", project, "stored", stored, "known", known)
	case !p.wentBack && before:
		g.config.Logger.Info("the store has not gone back any more, or its older data was accepted", "project", project)
	}
	return g.config.Authenticated && !p.wentBack && stored > 0 && (p.unread || p.ownersAt != stored)
}

// maxSkew is how far the watermark of a report may be ahead of the clock of this process. What is
// further ahead is no number of a change.
const maxSkew = time.Hour

// KnownWatermark returns the highest watermark that live nodes report.
func KnownWatermark(reports []NodeReport) (known int64) {
	latest := time.Now().Add(maxSkew).UnixMilli()
	for _, r := range reports {
		if n := r.Node.GetWatermark(); r.Alive() && n <= latest {
			known = max(known, n)
		}
	}
	return known
}

// readReports reads what the nodes of some locations of a project report.
func (g *StoreGuard) readReports(ctx context.Context, project string, locations []authz.Location) error {
	for _, location := range locations {
		reports, err := g.config.Store.Nodes(ctx, location)
		if err != nil {
			return err
		}
		reported := KnownWatermark(reports)
		g.mu.Lock()
		p := g.projectOf(project, location)
		p.reported[location] = max(p.reported[location], reported)
		if location == g.config.Location {
			p.known = max(p.known, reported)
		}
		g.mu.Unlock()
	}
	return nil
}

// commit makes a Txn that changes something, unless the store has gone back and the caller of the
// context does not own all that changes: then the error is ErrWentBack.
func (g *StoreGuard) commit(ctx context.Context, txn Txn) (int64, error) {
	locations := locationsOf(txn)
	if err := g.readReports(ctx, txn.Project, locations); err != nil {
		return 0, err
	}
	g.mu.Lock()
	txn.Known = g.projectOf(txn.Project, locations...).highest(locations)
	g.mu.Unlock()
	sequence, err := g.config.Store.Commit(ctx, txn)
	switch {
	case errors.Is(err, ErrWentBack):
		if errLook := g.look(ctx, txn.Project); errLook != nil {
			return 0, errLook
		}
		if !g.owns(ctx, txn) {
			return 0, err
		}
		txn.Known, txn.Raises = 0, false
		return g.config.Store.Commit(ctx, txn)
	case err == nil && txn.Raises:
		g.raised(ctx, txn.Project, sequence)
	}
	return sequence, err
}

// raised notes that a Txn has raised the watermark, and reads who owns the project now: the store
// may lose this Txn in the next moment.
func (g *StoreGuard) raised(ctx context.Context, project string, sequence int64) {
	if err := g.note(ctx, project, sequence); err != nil {
		g.config.Logger.DebugContext(ctx, "the owners could not be read", "project", project, "error", err)
	}
}

// locationsOf returns the locations that a Txn is about, in order.
func locationsOf(txn Txn) []authz.Location {
	var locations []authz.Location
	for _, w := range txn.Writes {
		if location := authz.ResourceName(nameOf(w)).Location(); location != "" {
			locations = append(locations, location)
		}
	}
	slices.Sort(locations)
	return slices.Compact(locations)
}
