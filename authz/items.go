package authz

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	adminpb "understudy/admin/v1"
	"understudy/rego"
	"understudy/rego/change"
)

// Items returns in what two policies differ: in rules, data, the chain of filters and the projects that they
// exempt. It follows from the two alone. The error is that of ctx or of a module that does not parse. It
// never panics.
func Items(ctx context.Context, live, candidate *adminpb.Policy) (*change.List, error) {
	return listItems(ctx, sourceOf(live), sourceOf(candidate))
}

// EffectiveItems is Items of two versions of which each counts alone: what a version has where nothing that is asked
// reads it, it does not have. So a change that was merged into a rule that is not called any more is missing.
func EffectiveItems(ctx context.Context, from, to *adminpb.Policy) (*change.List, error) {
	a, b := sourceOf(from), sourceOf(to)
	a.Effective, b.Effective = true, true
	return listItems(ctx, a, b)
}

func listItems(ctx context.Context, live, candidate change.Source) (*change.List, error) {
	c, err := compareItems(ctx, live, candidate)
	if err != nil {
		return nil, err
	}
	list := c.List // anyone who keeps it does not keep what was compared
	return &list, nil
}

func compareItems(ctx context.Context, live, candidate change.Source) (c *change.Comparison, err error) {
	defer func() {
		if recover() != nil {
			c, err = nil, fmt.Errorf("comparing the policies panicked")
		}
	}()
	return change.Compare(ctx, live, candidate)
}

// sourceOf is what Compile reads of a policy.
func sourceOf(p *adminpb.Policy) change.Source {
	s := change.Source{Modules: p.GetModules(), Data: p.GetData(), Paths: regoPaths(p.GetRules())}
	for i, r := range p.GetRules() {
		s.Settings = append(s.Settings, change.Setting{Name: ruleID(i, r), Text: ruleText(r), Filter: i})
	}
	for _, project := range p.GetExemptedProjects() {
		s.Settings = append(s.Settings, change.Setting{Name: "exempted_projects", Text: project, Filter: -1})
	}
	return s
}

// ruleText is equal for equal filters: the path of a rule, or the kind of the filter and what it says.
func ruleText(r *adminpb.PolicyRule) string {
	if path := rulePath(r); path != "" {
		return path
	}
	m := r.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("filter"))
	if field == nil {
		return ""
	}
	text, err := protojson.Marshal(m.Get(field).Message().Interface())
	var plain any
	if err == nil {
		err = json.Unmarshal(text, &plain) // its spaces are chosen at random
	}
	if err == nil {
		text, err = json.Marshal(plain)
	}
	if err != nil {
		return err.Error()
	}
	return string(field.Name()) + " " + string(text)
}

// Judge finds out what requests show of the items in which two policies differ. It is used by one goroutine
// at a time.
type Judge struct {
	// List has the items.
	List            *change.List
	live, candidate *half
}

// NewJudge returns a judge for two policies, of which these are compiled. The error is as that of [Items].
func NewJudge(ctx context.Context, live, candidate *adminpb.Policy, compiledLive, compiledCandidate *Policy) (*Judge, error) {
	c, err := compareItems(ctx, sourceOf(live), sourceOf(candidate))
	if err != nil {
		return nil, err
	}
	j := &Judge{List: &c.List}
	if j.live, err = newHalf(ctx, compiledLive, &c.Live); err == nil {
		j.candidate, err = newHalf(ctx, compiledCandidate, &c.Candidate)
	}
	return j, err
}

// Examine evaluates a request on both sides and returns what it shows of the items that are pending; nil
// means all. reading bounds what reading the request may cost; nil does not. The error is that of reading
// the request, or of ctx.
func (j *Judge) Examine(ctx context.Context, reading *ReadBudget, r *Request, pending func(item int) bool) (map[int]change.Shown, error) {
	shown := make(map[int]change.Shown)
	for _, h := range []*half{j.candidate, j.live} {
		if err := h.examine(ctx, reading, r, pending, shown); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

// Data evaluates a request on both sides, and returns the places of data without whose difference it would be decided
// otherwise, as people call them: the entries of a table are one. The error is as that of Examine.
func (j *Judge) Data(ctx context.Context, reading *ReadBudget, r *Request) ([]string, error) {
	isData := func(item int) bool { return j.List.Items[item].Kind == change.Data }
	if !j.List.HasData() {
		return nil, nil
	}
	shown, err := j.Examine(ctx, reading, r, isData)
	var out []string
	for _, i := range slices.Sorted(maps.Keys(shown)) {
		if place := j.List.Items[i].Place(); isData(i) && shown[i]&change.True != 0 && !slices.Contains(out, place) {
			out = append(out, place)
		}
	}
	return out, err
}

// half is one side of a judge.
type half struct {
	policy *Policy
	judge  *rego.Judge
	// watched are the items that a trace shows, filters those of the chain, and edited those that are taken
	// back, each once.
	watched []int
	filters map[int]int
	edited  []int
	// whole is all that is taken back so that the side has what the other one has.
	whole []int
	// guarded are the bodies that can be left out, and forced the conditions that can be taken to be true or not: a
	// trace shows which of them are worth that.
	guarded map[int]bool
	forced  map[int]change.Forced
	// groups :: item → what is taken back together with it.
	groups map[int][]int
}

func newHalf(ctx context.Context, p *Policy, of *change.Half) (*half, error) {
	h := &half{policy: p, filters: of.Filters, guarded: make(map[int]bool), forced: of.Forced, groups: of.Groups}
	if p.NoOp() {
		return h, nil
	}
	var err error
	if h.judge, err = p.program.NewJudge(ctx, of); err != nil {
		return nil, err
	}
	for _, t := range of.Targets {
		if t.Rule >= 0 {
			h.watched = append(h.watched, t.Rule)
		}
		for _, c := range t.Conditions {
			h.watched = append(h.watched, c.Item)
		}
	}
	h.edits(of.Edits)
	return h, nil
}

// edits notes what can be taken back.
func (h *half) edits(edits []change.Edit) {
	known, whole := make(map[int]bool), make(map[int]bool)
	for _, e := range edits {
		if e.Guard {
			if e.Item >= 0 {
				h.guarded[e.Item] = true
			}
			continue
		}
		if !whole[e.Item] {
			whole[e.Item] = true
			h.whole = append(h.whole, e.Item)
		}
		if !e.Others && !known[e.Item] {
			known[e.Item] = true
			h.edited = append(h.edited, e.Item)
		}
	}
}

// examine adds what a request shows on the side.
func (h *half) examine(ctx context.Context, reading *ReadBudget, r *Request, pending func(int) bool, shown map[int]change.Shown) error {
	if h.policy.NoOp() {
		return nil
	}
	edited := only(h.edited, pending)
	watches := len(only(h.watched, pending)) > 0
	if len(edited) == 0 && !watches && len(h.filters) == 0 {
		return nil
	}
	input, err := r.inputFor(reading, h.policy.required)
	if err != nil {
		return err
	}
	e := &examination{ctx: ctx, half: h, request: r, input: input}
	found := make(map[int]change.Shown)
	if e.decided = e.decide(nil, watches, found); !e.steady() {
		return ctx.Err()
	}
	e.passedOn(found)
	e.search(e.trials(pending, found), found)
	if len(edited) > 0 && !e.same(e.decide(h.whole, false, nil)) {
		e.search(e.takingBack(edited), found)
	}
	for item, what := range found {
		shown[item] |= what
	}
	return ctx.Err()
}

// only returns the items that are pending.
func only(items []int, pending func(int) bool) (out []int) {
	for _, i := range items {
		if pending == nil || pending(i) {
			out = append(out, i)
		}
	}
	return out
}

// evaluationsFor bounds how often a request is evaluated to find which of so many items it needs.
func evaluationsFor(n int) int {
	steps := 0
	for ; 1<<steps < n; steps++ {
	}
	return 2*steps + 16
}

// examination is one request on one side.
type examination struct {
	ctx     context.Context
	half    *half
	request *Request
	input   rego.Input
	// decided is what the filters decide with nothing taken back.
	decided []Decision
	budget  int
	// leftOut is the place of a filter that is not asked; nil if all are.
	leftOut *int
}

// trial is what shows something of an item: that the request is decided otherwise with something taken back, and too
// with all that belongs together.
type trial struct {
	item, take int
	what       change.Shown
	together   []int
}

// trials are those of the bodies and conditions that a trace has shown, which it takes out of what is shown: that a body
// was true, of a fact for example, or that a condition was not true where something else decides, shows nothing.
func (e *examination) trials(pending func(int) bool, shown map[int]change.Shown) (out []trial) {
	for item, what := range shown {
		forced, condition := e.half.forced[item]
		switch {
		case condition && what&change.True != 0:
			out = append(out, trial{item: item, take: forced.False, what: change.True})
		case condition:
			out = append(out, trial{item: item, take: forced.True, what: change.False})
		case e.half.guarded[item]:
			out = append(out, trial{item: item, take: item, what: change.True})
		default:
			continue
		}
		delete(shown, item)
	}
	out = slices.DeleteFunc(out, func(t trial) bool { return pending != nil && !pending(t.item) })
	slices.SortFunc(out, func(a, b trial) int { return cmp.Compare(a.item, b.item) })
	return out
}

// takingBack are the trials of items of which the side has something else.
func (e *examination) takingBack(items []int) (out []trial) {
	for _, i := range items {
		out = append(out, trial{item: i, take: i, what: change.True, together: e.half.groups[i]})
	}
	return out
}

// steady reports whether the policy itself decides as what was made of it, in which items can be taken back. If it does
// not, since it rolls dice for example, the request shows nothing.
func (e *examination) steady() bool {
	program := e.half.policy.program
	return e.same(e.chain(nil, func(path string) (rego.Result, error) {
		return program.Eval(e.ctx, path, e.input, e.request.Time)
	}))
}

// maxAlone is how many trials of a request are made each by itself. Of more of them those with which it is decided
// otherwise are searched for.
const maxAlone = 32

// search makes trials, each by itself or, if they are many, as long as that takes no more evaluations than it may.
func (e *examination) search(trials []trial, shown map[int]change.Shown) {
	if len(trials) > maxAlone {
		e.budget = evaluationsFor(len(trials))
		e.halve(trials, shown)
		return
	}
	for _, t := range trials {
		e.try(t, shown)
	}
}

// halve searches in halves: if the request is decided alike with all of one, it is none of them.
func (e *examination) halve(trials []trial, shown map[int]change.Shown) {
	if e.budget == 0 || e.ctx.Err() != nil {
		return
	}
	e.budget--
	if len(trials) == 1 {
		e.try(trials[0], shown)
		return
	}
	var takes []int
	for _, t := range trials {
		takes = append(takes, t.take)
	}
	if e.same(e.decide(takes, false, nil)) {
		return
	}
	e.halve(trials[:len(trials)/2], shown)
	e.halve(trials[len(trials)/2:], shown)
}

// try makes one trial.
func (e *examination) try(t trial, shown map[int]change.Shown) {
	if e.ctx.Err() == nil && !e.same(e.decide([]int{t.take}, false, nil)) && (t.together == nil || !e.same(e.decide(t.together, false, nil))) {
		shown[t.item] |= t.what
	}
}

// same reports whether filters decide as with nothing taken back.
func (e *examination) same(decisions []Decision) bool {
	return slices.EqualFunc(e.decided, decisions, e.alike)
}

// alike reports whether two decisions of a filter are the same for the caller: labels, which are for others,
// decide nothing. What was not decided for a reason that is none of the policy's shows nothing, and is the same as all
// else.
func (e *examination) alike(a, b Decision) bool {
	if undecided(a.Failure) || undecided(b.Failure) {
		return true
	}
	if a.Failure != b.Failure {
		return false
	}
	a.Labels, b.Labels = nil, nil
	a.Failure, b.Failure = "", "" // two denials for the same failure are compared as any others
	return e.request.Compare(a, b) == Unchanged
}

// decide asks the filters with items taken back. With a watch it notes what is shown of rules and filters.
func (e *examination) decide(taken []int, watch bool, shown map[int]change.Shown) []Decision {
	judge := e.half.judge
	judge.Take(taken)
	tracer := judge.NewTracer()
	out := e.chain(shown, func(path string) (rego.Result, error) {
		if watch {
			return judge.Watch(e.ctx, path, e.input, e.request.Time, tracer)
		}
		return judge.Eval(e.ctx, path, e.input, e.request.Time)
	})
	for item, what := range tracer.Shown() {
		shown[item] |= what
	}
	return out
}

// chain asks the filters in order, up to the first that denies, and notes what is shown of them, if it is to; eval
// evaluates the rule at a path. An external service is taken to pass: it is not asked again.
func (e *examination) chain(shown map[int]change.Shown, eval func(path string) (rego.Result, error)) (out []Decision) {
	for i, rule := range e.half.policy.rules {
		if callsService(rule.filter) || e.leftOut != nil && *e.leftOut == i {
			continue
		}
		d := e.check(rule.filter, eval)
		out = append(out, d)
		if item, known := e.half.filters[i]; known && shown != nil {
			shown[item] |= passed(d)
		}
		if d.Effect == Deny {
			break
		}
	}
	return out
}

// passedOn takes out of what is shown of filters what makes no difference: that one let a request pass which another one
// denies, or denied what the chain denies without it.
func (e *examination) passedOn(shown map[int]change.Shown) {
	last := e.decided[max(0, len(e.decided)-1):]
	for at, item := range e.half.filters {
		switch what := shown[item]; {
		case what&change.True != 0 && len(last) > 0 && last[0].Effect == Deny:
			delete(shown, item)
		case what&change.False != 0:
			e.leftOut = &at
			without := e.chain(nil, func(path string) (rego.Result, error) {
				return e.half.judge.Eval(e.ctx, path, e.input, e.request.Time)
			})
			e.leftOut = nil
			if len(without) > 0 && len(last) > 0 && e.alike(last[0], without[len(without)-1]) {
				delete(shown, item)
			}
		}
	}
}

// passed says whether a filter let a request pass.
func passed(d Decision) change.Shown {
	if d.Effect == Deny {
		return change.False
	}
	return change.True
}

// check asks a filter.
func (e *examination) check(of filter, eval func(path string) (rego.Result, error)) Decision {
	if f, ok := of.(regoFilter); ok {
		result, err := eval(f.path)
		return f.decision(result, err, nil)
	}
	return of.check(e.ctx, evaluation{Conditions: Conditions{Shadow: true}, request: e.request, input: e.request.Input})
}
