package ui

import (
	"context"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// nodesShown is how many sidecars are listed.
const nodesShown = 200

// experimentRows reads the experiments of a policy.
func (u *UI) experimentRows(ctx context.Context, policy string) ([]experimentRow, error) {
	list, err := u.config.Services.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{Parent: policy})
	if err != nil {
		return nil, err
	}
	return u.judged(ctx, list.PolicyExperiments), nil
}

// state is whether an experiment is previewed, in a word.
type state struct {
	Word string
	// Active says that it is previewed now, Begun that it ever was.
	Active, Begun bool
	Since         *timestamppb.Timestamp
}

// stateOf is that of an experiment.
func stateOf(e *adminpb.PolicyExperiment) state {
	m := e.GetPreviewMetadata()
	switch m.GetState() {
	case adminpb.PolicyPreviewMetadata_ACTIVE:
		return state{Word: "previewing", Active: true, Begun: true, Since: m.StartTime}
	case adminpb.PolicyPreviewMetadata_SUSPENDED:
		return state{Word: "stopped", Begun: true, Since: m.StopTime}
	default:
		return state{Word: "not started"}
	}
}

// enforced is on how many sidecars a policy is enforced.
type enforced struct {
	// On and Of are numbers of live sidecars: those that are up to date, and all that have the policy.
	On, Of int64
	// Watching is how many of them enforce nothing (serve --observe).
	Watching int64
	// Partly says that some sidecar does not enforce it yet.
	Partly bool
	// Unknown says that the sidecars may not be seen.
	Unknown bool
}

// sidecar is a node as the page shows it.
type sidecar struct {
	ID       string
	Started  *timestamppb.Timestamp
	Policies int
	// Word is its state, and Tone the colour of that.
	Word, Tone string
	// About says more: how far it is behind, or its error.
	About string
	// Heartbeat is when a silent one was heard of last.
	Heartbeat *timestamppb.Timestamp
	live      bool
	// current says that it is live and up to date.
	current bool
	node    *adminpb.Node
	applied int64
}

// sidecars are those of a location.
type sidecars struct {
	Rows []sidecar
	// Live is how many report, Troubled how many of all are not well.
	Live, Troubled int64
	// More is how many are not listed.
	More int64
	// Absent are default policies that do not exist.
	Absent []absentDefault
	// Denied says that they may not be seen.
	Denied bool
	// all are the rows and those that are not listed.
	all []sidecar
}

// sidecars reads those of a location. They are left out if anyone who asks may not list them.
func (u *UI) sidecars(ctx context.Context, location string) (sidecars, error) {
	var out sidecars
	nodes, err := u.nodes(ctx, location)
	if denied(err) {
		return sidecars{Denied: true}, nil
	}
	if err != nil {
		return out, err
	}
	var latest int64
	for _, n := range nodes {
		s := sidecar{ID: id(n.Name), Started: n.CreateTime, Policies: len(n.Policies), Heartbeat: n.HeartbeatTime, node: n, applied: n.AppliedSequence}
		s.live = u.now().Sub(n.HeartbeatTime.AsTime()) < authz.NodeLifetime
		if s.live {
			latest = max(latest, n.AppliedSequence)
		}
		out.all = append(out.all, s)
	}
	for i := range out.all {
		s := &out.all[i]
		s.judge(latest)
		if s.live {
			out.Live++
			out.noteAbsent(s.node)
		}
		if s.Tone != "good" {
			out.Troubled++
		}
	}
	slices.SortStableFunc(out.all, func(a, b sidecar) int { return strings.Compare(rank(a), rank(b)) })
	out.Rows = out.all[:min(len(out.all), nodesShown)]
	out.More = int64(len(out.all) - len(out.Rows))
	return out, nil
}

// absentDefault is a policy that decides on live sidecars where a request names none, and
// that does not exist.
type absentDefault struct {
	ID authz.PolicyID
	// Sidecars is on how many.
	Sidecars int64
	// ByDefault is what they decide then, and Watching says that they only say so.
	ByDefault authz.Effect
	Watching  bool
}

// Denied reports whether they deny these requests.
func (a absentDefault) Denied() bool { return a.ByDefault == authz.Deny }

// Help says what it means, and what to do about it.
func (a absentDefault) Help() string { return authz.AbsentDefaultHelp(a.ID, a.ByDefault) }

// noteAbsent counts a live sidecar whose default policy does not exist.
func (s *sidecars) noteAbsent(n *adminpb.Node) {
	a := absentDefault{ID: authz.AbsentDefault(n), ByDefault: authz.DefaultEffect(n), Watching: n.Observing}
	if a.ID == "" {
		return
	}
	for i, b := range s.Absent {
		if a.ID == b.ID && a.ByDefault == b.ByDefault && a.Watching == b.Watching {
			s.Absent[i].Sidecars++
			return
		}
	}
	a.Sidecars = 1
	s.Absent = append(s.Absent, a)
}

// All is how many sidecars there are, live or not.
func (s sidecars) All() int64 { return int64(len(s.all)) }

// Remarks reports whether there is more to say of some sidecar.
func (s sidecars) Remarks() bool {
	return slices.ContainsFunc(s.Rows, func(row sidecar) bool { return row.About != "" || row.Heartbeat != nil })
}

// nodes reads all nodes of a location.
func (u *UI) nodes(ctx context.Context, location string) (nodes []*adminpb.Node, err error) {
	for token := ""; ; {
		list, err := u.config.Services.ListNodes(ctx, &adminpb.ListNodesRequest{Parent: location, PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, err
		}
		if nodes, token = append(nodes, list.Nodes...), list.NextPageToken; token == "" {
			return nodes, nil
		}
	}
}

// rank sorts what is not well first.
func rank(s sidecar) string {
	return map[string]string{"bad": "0", "look": "1", "unknown": "2", "good": "3"}[s.Tone] + s.ID
}

// judge finds the word for a sidecar. latest is the change that some live one has applied.
func (s *sidecar) judge(latest int64) {
	switch {
	case !s.live:
		s.Word, s.Tone, s.About = "silent", "unknown", "It has ended, or cannot reach the store."
	case s.node.Error != nil:
		s.Word, s.Tone, s.About = "error", "bad", s.node.Error.Message
	case s.applied < latest:
		s.Word, s.Tone, s.About = "behind", "look", "it has not applied the last change"
	default:
		s.current = true
		s.Word, s.Tone = s.serving()
	}
	if s.live {
		s.Heartbeat = nil // it changes all the time
	}
	if s.node.Observing {
		s.Word += ", watching"
		s.About = strings.TrimSpace("It decides, and enforces nothing. " + s.About)
	}
}

// serving is the word for a live sidecar that is up to date, with its colour. Without any
// policy it decides each request by default; where routes name policies, one without a
// default policy may be meant.
func (s *sidecar) serving() (word, tone string) {
	id := authz.AbsentDefault(s.node)
	if id == "" {
		return "up to date", "good"
	}
	word, tone = "denies: no policy "+string(id), "look"
	if s.node.DefaultAllow {
		word = "allows: no policy " + string(id)
	}
	if s.Policies == 0 {
		tone = "bad"
	}
	return word, tone
}

// enforcing counts the live sidecars that have a policy.
func (s sidecars) enforcing(p *adminpb.Policy) enforced {
	out := enforced{Partly: p.Reconciling, Unknown: s.Denied}
	for _, n := range s.all {
		if !n.live || !slices.Contains(n.node.Policies, p.Name) {
			continue
		}
		out.Of++
		if n.current || !p.Reconciling {
			out.On++
		}
		if n.node.Observing {
			out.Watching++
		}
	}
	return out
}

// String says it in words.
func (e enforced) String() string {
	switch {
	case e.Unknown && e.Partly:
		return "not on every sidecar yet"
	case e.Unknown:
		return "on every live sidecar"
	case e.Of == 0:
		return "on no sidecar"
	}
	return "on " + report.Number(e.On) + " of " + verdict.Counted(e.Of, "sidecar")
}

// locationLinks are the locations of a project, for anyone who may list across them.
type locationLinks struct {
	Here  string
	Links []link
}

// locations finds the locations of a project that have policies, with the present one.
func (u *UI) locations(ctx context.Context, here string) (locationLinks, error) {
	out := locationLinks{Here: here}
	names, err := u.locationNames(ctx, here)
	if err != nil {
		return out, err
	}
	for _, n := range names {
		out.Links = append(out.Links, link{id(n), address(n)})
	}
	return out, nil
}

// locationNames are the names of those, sorted, and of those alone that may be listed.
func (u *UI) locationNames(ctx context.Context, here string) ([]string, error) {
	names := []string{here}
	if home := u.config.Location; projectOf(home) == projectOf(here) {
		names = append(names, home)
	}
	for token := ""; ; {
		list, err := u.config.Services.ListPolicies(ctx, &adminpb.ListPoliciesRequest{
			Parent: projectOf(here) + "/locations/-", PageSize: 1000, PageToken: token,
		})
		if denied(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, p := range list.Policies {
			names = append(names, locationOf(p.Name))
		}
		if token = list.NextPageToken; token == "" {
			break
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(n string) bool { return id(n) == "global" && n != here }), nil
}

// makers know who made revisions: reading one reads all of its policy. A revision never
// changes, so what is known stays true.
type makers struct {
	mu sync.Mutex
	// of :: UID of a policy and its revision → who made it.
	of map[string]string
}

// maxMakers bounds what is known.
const maxMakers = 4096

func newMakers() *makers { return &makers{of: make(map[string]string)} }

// makerOf is who made the revision that is live, for anyone who may list those of the policy.
func (u *UI) makerOf(ctx context.Context, p *adminpb.Policy, may permissions) string {
	if !may[access.RevisionsList] || p.Revision == "" {
		return ""
	}
	key := p.Uid + " " + p.Revision
	u.makers.mu.Lock()
	creator, known := u.makers.of[key]
	u.makers.mu.Unlock()
	if known {
		return creator
	}
	list, err := u.config.Services.ListPolicyRevisions(ctx, &adminpb.ListPolicyRevisionsRequest{
		Parent: p.Name, Filter: "name = " + phrase(p.Revision), PageSize: 1,
	})
	if err != nil || len(list.PolicyRevisions) == 0 {
		return ""
	}
	revision := list.PolicyRevisions[0]
	creator = access.Principal{Member: revision.Creator, Display: revision.CreatorDisplay}.Named()
	u.makers.mu.Lock()
	defer u.makers.mu.Unlock()
	if len(u.makers.of) >= maxMakers {
		clear(u.makers.of)
	}
	u.makers.of[key] = creator
	return creator
}
