package change

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"google.golang.org/protobuf/types/known/structpb"
)

// Source is what is compared of a policy.
type Source struct {
	// Modules :: file name → Rego v1 text.
	Modules map[string]string
	// Data is the document that the modules read as `data`.
	Data *structpb.Struct
	// Paths are the rules that are asked, such as envoy/authz/allow. Rules that none of them can lead to,
	// such as tests, are no part of a change, and neither is data that no rule reads which they lead to.
	Paths []string
	// Settings are what else decides, each with a text that differs where it does.
	Settings []Setting
	// Effective says that a rule which none of the paths can lead to, and data that no rule reads which they lead to,
	// count as absent, also if the other policy has them in effect.
	Effective bool
}

// Setting is something that decides and is neither Rego nor data.
type Setting struct {
	// Name is what people call it, such as rules[2], and Text its content.
	Name, Text string
	// Filter is the place of the filter in the chain that it is; negative if it is none.
	Filter int
}

// Comparison is a list with what is needed to find out what a request shows of its items.
type Comparison struct {
	List List
	// Live and Candidate are how the items are found on each side.
	Live, Candidate Half
}

// Half is what a comparison has of one side.
type Half struct {
	// Targets are the bodies to watch, with the places of their items in the list.
	Targets []Target
	// Filters :: place in the chain → place of the item in the list.
	Filters map[int]int
	// Edits take items back.
	Edits []Edit
	// Groups :: item → what is taken back together with it, before it is seen.
	Groups map[int][]int
	// Forced :: condition → what takes it to be true, and not to be.
	Forced map[int]Forced
	// Modules are those of the side with a reference to data in place of each constant that an item is
	// about; nil if there is none. Constants is what that data is.
	Modules   map[string]*ast.Module
	Constants []ast.Value
}

// Forced is what is taken back so that a condition is true, or not.
type Forced struct{ True, False int }

// Compare compares two policies. Formatting, comments, the order of what has none, the names of variables,
// and where a rule stands make no difference. The error is that of ctx, or of a module that does not parse.
func Compare(ctx context.Context, live, candidate Source) (*Comparison, error) {
	l, err := parse(ctx, live)
	if err != nil {
		return nil, fmt.Errorf("reading the live policy: %w", err)
	}
	c, err := parse(ctx, candidate)
	if err != nil {
		return nil, fmt.Errorf("reading the candidate: %w", err)
	}
	l.keepEffective(&live)
	c.keepEffective(&candidate)
	b := &builder{out: &Comparison{}, ids: make(map[string]int)}
	b.sides = map[Side]*policy{Live: l, Candidate: c}
	b.settings(slices.Concat(live.Settings, l.annotations(live.Modules)), slices.Concat(candidate.Settings, c.annotations(candidate.Modules)))
	b.definitions(l, c)
	for _, f := range b.last {
		f()
	}
	b.data(live.Data, candidate.Data, slices.Concat(l.reads(), c.reads()))
	if len(b.out.Live.Constants)+len(b.out.Candidate.Constants) > 0 {
		b.out.Live.Modules, b.out.Candidate.Modules = l.modules, c.modules
	}
	b.out.List.Digest = b.digest()
	return b.out, ctx.Err()
}

// builder makes a comparison.
type builder struct {
	out   *Comparison
	sides map[Side]*policy
	// ids :: what an ID is made of → how many items have it.
	ids map[string]int
	// last is what changes the modules so that definitions cannot be compared any more.
	last []func()
	// more is how many IDs there are of what is not listed.
	more int
}

// unlisted returns an ID of what is not listed.
func (b *builder) unlisted() int {
	b.more++
	return -b.more
}

// add adds an item of which identity is what differs, and returns its place; negative if there is no room.
func (b *builder) add(item Item, identity ...string) int {
	if len(b.out.List.Items) >= MaxItems {
		b.out.List.More++
		return -1
	}
	key := fmt.Sprintf("%d %d %q", item.Kind, item.Side, identity)
	hash := sha256.Sum256(fmt.Appendf(nil, "%s %d", key, b.ids[key]))
	b.ids[key]++
	item.ID = hex.EncodeToString(hash[:10])
	b.out.List.Items = append(b.out.List.Items, item)
	return len(b.out.List.Items) - 1
}

// half is that of a side.
func (b *builder) half(s Side) *Half {
	if s == Live {
		return &b.out.Live
	}
	return &b.out.Candidate
}

// digest changes with the items, their order, and what is made of them.
func (b *builder) digest() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "1 %d", b.out.List.More)
	for _, item := range b.out.List.Items {
		fmt.Fprint(h, " ", item.ID)
	}
	return h.Sum(nil)[:16]
}

// definitions adds what differs in the rules.
func (b *builder) definitions(live, candidate *policy) {
	removed, added := unlike(live, candidate)
	pairs := pair(removed, added)
	sort := func(of []*definition) {
		slices.SortFunc(of, func(a, b *definition) int { return a.bodies[0].rule.Location.Compare(b.bodies[0].rule.Location) })
	}
	sort(removed)
	sort(added)
	for _, d := range removed {
		if pairs[d] == nil && d.reached {
			for _, one := range d.bodies {
				b.rule(Live, d, one)
			}
		}
	}
	for _, d := range added {
		of := pairs[d]
		switch {
		case of == nil && d.reached:
			for _, one := range d.bodies {
				b.rule(Candidate, d, one)
			}
		case of != nil && (d.reached || of.reached):
			b.changed(of, d)
		}
	}
}

// rule adds a body.
func (b *builder) rule(side Side, d *definition, of *body) {
	at := of.rule.Location
	item := Item{Kind: Rule, Side: side, File: at.File, Line: at.Row, Rule: d.name}
	setText(&item, side, d.lineAt(at))
	place := b.add(item, d.name, d.ownText(of))
	switch {
	case place < 0:
	case of.rule.Default:
		b.defaultGoes(side, d, place)
	default:
		b.target(side, of, place, nil)
		b.half(side).guard(place, of)
	}
}

// target watches a body for an item, of an expression or the whole.
func (b *builder) target(side Side, of *body, item int, e *expression) {
	if item < 0 {
		return
	}
	at := of.rule.Location
	half := b.half(side)
	i := slices.IndexFunc(half.Targets, func(t Target) bool { return t.File == at.File && t.Line == at.Row && t.Column == at.Col })
	if i < 0 {
		i = len(half.Targets)
		half.Targets = append(half.Targets, Target{File: at.File, Line: at.Row, Column: at.Col, Rule: -1})
	}
	if e == nil {
		half.Targets[i].Rule = item
		return
	}
	half.Targets[i].Conditions = append(half.Targets[i].Conditions, Watched{
		Item: item, Offset: e.ast.Location.Offset, Length: len(e.ast.Location.Text),
	})
}

// changed adds what differs in two definitions that are each other's counterparts, body by body. What no
// expression shows makes the body an item.
func (b *builder) changed(live, candidate *definition) {
	for _, one := range align(live, candidate) {
		switch {
		case one.live == nil:
			b.rule(Candidate, candidate, one.candidate)
		case one.candidate == nil:
			b.rule(Live, live, one.live)
		default:
			b.bodies(counterparts{live, candidate, one.live, one.candidate})
		}
	}
}

// reads are the places of data that definitions may read which matter.
func (p *policy) reads() (out []ast.Ref) {
	for _, d := range p.definitions {
		if d.reached {
			out = append(out, d.reads...)
		}
	}
	return out
}

// keepEffective leaves out what has no effect in the policy, if its source says so.
func (p *policy) keepEffective(s *Source) {
	if !s.Effective {
		return
	}
	p.definitions = slices.DeleteFunc(p.definitions, func(d *definition) bool { return !d.reached })
	s.Data = &structpb.Struct{Fields: readFields(ast.DefaultRootRef, s.Data.GetFields(), p.reads())}
}
