package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Stages are the locations of a project, each promoted to its next one.

const (
	// stagesShown bounds the locations of a page, and policiesCompared the policies of each.
	stagesShown      = 20
	policiesCompared = 1000
)

// step is the way from a location to its next one.
type step struct {
	From, To string
	// Rows are the policies of both.
	Rows []stageRow
	// Differing is how many differ.
	Differing int64
	// Promote says that a promotion is offered.
	Promote bool
	// Denied says which of the two may not be seen.
	Denied string
}

// Says is how many policies would be promoted.
func (s step) Says() string {
	if s.Differing == 1 {
		return "1 policy to promote"
	}
	return report.Number(s.Differing) + " policies to promote"
}

// stageRow is a policy in two locations.
type stageRow struct {
	ID string
	// Left and Right are the live policies; nil where there is none.
	Left, Right *adminpb.Policy
	// Word says how they differ.
	Word, Tone string
}

// Promotable reports whether a promotion would change something.
func (r stageRow) Promotable() bool { return r.Left != nil && r.Tone != "good" }

// stages is the view of the chain of locations.
func (u *UI) stages(r *http.Request) (*view, error) {
	name := locationNamed(r)
	steps, err := u.steps(r.Context(), name)
	if err != nil {
		return nil, err
	}
	return &view{
		Title: "Stages", Kicker: "Project " + strings.TrimPrefix(projectOf(name), "projects/"), Location: name, Tab: "stages",
		Parts: []part{{ID: "stages", Page: "stages", Data: steps}},
	}, nil
}

// steps finds all steps of a project, in the order in which policies go through them.
func (u *UI) steps(ctx context.Context, here string) ([]step, error) {
	names, err := u.locationNames(ctx, here)
	if err != nil {
		return nil, err
	}
	next := make(map[string]string) // :: location → its next one
	for i := 0; i < len(names) && i < stagesShown; i++ {
		to, err := u.nextOf(ctx, names[i])
		if denied(err) && names[i] != here {
			continue // it ends the chain, for anyone who asks
		}
		if err != nil {
			return nil, err
		}
		if to != "" {
			next[names[i]] = to
			if !slices.Contains(names, to) {
				names = append(names, to)
			}
		}
	}
	var out []step
	for _, from := range ordered(names, next) {
		s, err := u.step(ctx, from, next[from])
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// nextOf is the next location of a location; empty if it has none.
func (u *UI) nextOf(ctx context.Context, location string) (string, error) {
	config, err := u.config.Services.GetConfig(ctx, &adminpb.GetConfigRequest{Name: location + "/config"})
	return config.GetNextLocation(), err
}

// ordered are the locations that have a next one: each chain from its first on, and at last those
// of which none is the first.
func ordered(names []string, next map[string]string) (out []string) {
	led := make(map[string]bool)
	for _, to := range next {
		led[to] = true
	}
	add := func(first string) {
		for at := first; next[at] != "" && !slices.Contains(out, at); at = next[at] {
			out = append(out, at)
		}
	}
	for _, name := range names {
		if !led[name] {
			add(name)
		}
	}
	for _, name := range names {
		add(name)
	}
	return out
}

// step compares a location with its next one.
func (u *UI) step(ctx context.Context, from, to string) (step, error) {
	s := step{From: from, To: to}
	left, err := u.livePolicies(ctx, from)
	if denied(err) {
		s.Denied = from
		return s, nil
	}
	if err != nil {
		return s, err
	}
	right, err := u.livePolicies(ctx, to)
	if denied(err) {
		s.Denied = to
		return s, nil
	}
	if err != nil {
		return s, err
	}
	for _, policy := range keysOf(left, right) {
		row := s.row(policy, left[policy], right[policy])
		if row.Promotable() {
			s.Differing++
		}
		s.Rows = append(s.Rows, row)
	}
	s.Promote, err = u.mayPromote(ctx, from, to)
	s.Promote = s.Promote && s.Differing > 0
	return s, err
}

// mayPromote reports whether policies may be promoted: that needs the permission on both sides.
func (u *UI) mayPromote(ctx context.Context, from, to string) (bool, error) {
	for _, location := range []string{from, to} {
		may, err := u.permitted(ctx, location, access.PoliciesPromote)
		if err != nil || !may[access.PoliciesPromote] {
			return false, err
		}
	}
	return true, nil
}

// row compares by revision, which is the hash of the content.
func (s step) row(policy string, left, right *adminpb.Policy) stageRow {
	row := stageRow{ID: policy, Left: left, Right: right}
	switch {
	case right == nil:
		row.Word, row.Tone = "only in "+id(s.From), "look"
	case left == nil:
		row.Word, row.Tone = "only in "+id(s.To), "unknown"
	case id(left.Revision) == id(right.Revision):
		row.Word, row.Tone = "the same", "good"
	default:
		row.Word, row.Tone = "differs", "look"
	}
	return row
}

// livePolicies :: ID → live policy of a location.
func (u *UI) livePolicies(ctx context.Context, location string) (map[string]*adminpb.Policy, error) {
	list, err := u.config.Services.ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: location, PageSize: policiesCompared})
	if err != nil {
		return nil, err
	}
	out := make(map[string]*adminpb.Policy)
	for _, p := range list.Policies {
		if p.DeleteTime == nil {
			out[id(p.Name)] = p
		}
	}
	return out, nil
}

// readStep reads what a promotion from a location would do.
func (u *UI) readStep(ctx context.Context, from string) (step, error) {
	to, err := u.nextOf(ctx, from)
	if err != nil {
		return step{}, err
	}
	if to == "" {
		return step{}, apierror.Precondition(locationName(from), apierror.ReasonNoNextLocation,
			"It has no next location. Set one: understudy apply "+from+"/config -f FILE, with nextLocation in the file.")
	}
	return u.step(ctx, from, to)
}

// locationName is a location in errors.
type locationName string

// Type and String implement apierror.Resource.
func (l locationName) Type() string   { return "locations.googleapis.com/Location" }
func (l locationName) String() string { return string(l) }

// confirmPromotion asks which policies are to be promoted.
func (u *UI) confirmPromotion(r *http.Request) (*view, error) {
	from := locationNamed(r)
	s, err := u.readStep(r.Context(), from)
	if err != nil {
		return nil, err
	}
	if may, err := u.mayPromote(r.Context(), s.From, s.To); err != nil || !may {
		if err == nil {
			err = apierror.PermissionDenied(apierror.Permission(access.PoliciesPromote), s.From+"' and '"+s.To)
		}
		return nil, err
	}
	return &view{
		Title: "Promote " + id(from) + " to " + id(s.To) + "?", Kicker: "Nothing is done yet", Asks: true,
		Crumbs: []link{{"Stages", address(from, "stages")}}, Location: from, Tab: "stages",
		Parts: []part{{ID: "promote", Page: "promote", Data: s}},
	}, nil
}

// Seen is what a form says of a policy that was looked at: the revision that is promoted, and
// the etag of what it replaces.
func (r stageRow) Seen() string {
	return r.ID + " " + id(r.Left.GetRevision()) + " " + r.Right.GetEtag()
}

// promote promotes the policies that were chosen, if they are still what was seen.
func (u *UI) promote(r *http.Request) (*url.URL, *view, error) {
	request := &adminpb.PromotePoliciesRequest{Parent: locationNamed(r), Destination: r.PostFormValue("to")}
	for _, seen := range r.PostForm["policy"] {
		policy, versions, _ := strings.Cut(seen, " ")
		revision, etag, _ := strings.Cut(versions, " ")
		request.Policies = append(request.Policies, &adminpb.PromotedPolicy{
			Revision: authz.Location(request.Parent).Policy(authz.PolicyID(policy)).Revision(revision), TargetEtag: etag,
		})
	}
	op, err := u.config.Services.PromotePolicies(r.Context(), request)
	if err != nil {
		return nil, nil, err
	}
	return operationAt(op), nil, nil
}
