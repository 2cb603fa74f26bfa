package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

const (
	// maxCauses is how many groups that are equal but for their causes are kept apart. The requests with other
	// causes are in the group whose causes are not known.
	maxCauses = 16
	// maxExplained is for how many reasons the causes of such groups are known, and maxPending for how many
	// they are looked for at a time. The others are those of all groups of a pair.
	maxExplained       = 2048
	maxPending         = 64
	maxExplainedOfPair = 1 << 14
	maxPendingOfPair   = 512
	// maxParts is how many paths and callers of requests for the same reasons are kept apart until the causes are
	// known.
	maxParts = 16
	// firstExplained is how many requests are explained, of those whose reasons are not known, before it is only
	// every time that there are twice as many.
	firstExplained = 3
	// causeSize is the size of a hash of causes, in bytes.
	causeSize = 8
)

// unknownCause is that of requests whose causes were not found, or not yet.
const unknownCause = ""

// noCause is that of requests which no expression explains.
var noCause = hashOf(nil)

// specificCause is in the place of the cause of reasons for which places of data make a difference: these may be others
// for each path and caller.
const specificCause = "specific"

// ExplainResult says what became of an attempt to find the causes of a difference.
type ExplainResult int

const (
	// Found says that the causes are known; there may be none.
	Found ExplainResult = iota
	// Busy says that there was no time. The next request for the same reasons is another attempt.
	Busy
	// Failed says that they were not found. Another attempt may find them.
	Failed
)

// Unexplained is a request whose causes should be found.
type Unexplained struct {
	group groupID
	// reasons are those that it is asked for, and specific those of its path and caller alone.
	reasons, specific Reasons
}

// explanations are those of the requests of groups that are equal but for their causes. Requests for the same reasons
// have the same causes, so one of them is explained.
type explanations struct {
	// causes :: reasons → the hash of their causes.
	causes map[Reasons]string
	// pending :: reasons whose causes are not known → their requests.
	pending map[Reasons]*pendingGroup
	// distinct are the hashes of causes for which there is a group.
	distinct map[string]bool
	// unreasoned is how many requests there were whose reasons are not known.
	unreasoned int64
}

// pendingGroup are requests for the same reasons whose causes are not known.
type pendingGroup struct {
	// parts :: specific reasons → their requests, of up to maxParts; rest are the others.
	parts map[Reasons]*group
	rest  group
	count int64
	// underWay says that somebody looks for the causes, and failed that they were not found.
	underWay, failed bool
}

func newExplanations() *explanations {
	return &explanations{causes: make(map[Reasons]string), pending: make(map[Reasons]*pendingGroup), distinct: make(map[string]bool)}
}

// countDiffering counts a request that is decided differently, and reports whether its causes should be found.
func (p *pair) countDiffering(c Comparison, by caller, at int64) (ask Unexplained, explain bool) {
	id := p.boundReason(c.group())
	if !c.Outcome.explainable {
		id.cause = noCause
		p.groupOf(id).request(c, by, at)
		return ask, false
	}
	known := p.explanationsOf(id)
	reasons := known.reasonsOf(c)
	cause, found := known.causes[reasons]
	waiting := known.pending[reasons]
	if waiting == nil && !found && reasons != (Reasons{}) && p.mayExplain(id, known) {
		waiting = known.wait(reasons)
		p.pending++
	}
	if waiting == nil {
		id.cause = cause
		p.groupOf(id).request(c, by, at)
		return ask, false
	}
	specific := c.specific()
	waiting.of(specific).request(c, by, at)
	waiting.count++
	return Unexplained{id, reasons, specific}, waiting.ask()
}

// wait makes the group of reasons whose causes are not known.
func (e *explanations) wait(reasons Reasons) *pendingGroup {
	waiting := &pendingGroup{parts: make(map[Reasons]*group)}
	e.pending[reasons] = waiting
	return waiting
}

// of returns the requests of specific reasons, or, if there is no room for them, of the others.
func (g *pendingGroup) of(specific Reasons) *group {
	part := g.parts[specific]
	switch {
	case part != nil:
		return part
	case len(g.parts) >= maxParts:
		return &g.rest
	}
	part = &group{}
	g.parts[specific] = part
	return part
}

// ask reports whether the causes should be looked for now, which is then under way: the first time, and where they were
// not found, when there are twice as many requests.
func (g *pendingGroup) ask() bool {
	if g.underWay || g.failed && g.count&(g.count-1) != 0 {
		return false
	}
	g.underWay = true
	return true
}

// all returns all requests.
func (g *pendingGroup) all() *group {
	sum := &group{}
	sum.add(&g.rest)
	for _, part := range g.parts {
		sum.add(part)
	}
	return sum
}

// reasonsOf returns those of a comparison. Where they are not known, a request of the sample has some of its own, and
// another one has none.
func (e *explanations) reasonsOf(c Comparison) Reasons {
	switch {
	case c.Reasons != (Reasons{}) && e.causes[c.Reasons] == specificCause:
		return c.specific()
	case c.Reasons != (Reasons{}):
		return c.Reasons
	}
	e.unreasoned++
	if n := e.unreasoned; n > firstExplained && n&(n-1) != 0 {
		return Reasons{}
	}
	return Reasons{3: uint64(e.unreasoned)}
}

// mayExplain reports whether there is room to look for the causes of other reasons. It makes room by giving up those
// that nobody looks for now.
func (p *pair) mayExplain(id groupID, known *explanations) bool {
	if len(known.causes) >= maxExplained || p.explained >= maxExplainedOfPair {
		return false
	}
	if len(known.pending) >= maxPending {
		p.release(id, known, (*pendingGroup).isIdle)
	}
	if p.pending >= maxPendingOfPair {
		for id, known := range p.explanations {
			p.release(id, known, (*pendingGroup).isIdle)
		}
	}
	return len(known.pending) < maxPending && p.pending < maxPendingOfPair
}

// isIdle reports whether nobody looks for the causes now.
func (g *pendingGroup) isIdle() bool { return !g.underWay }

// always is true of all pending groups.
func always(*pendingGroup) bool { return true }

// explanationsOf returns those of the groups that are equal to one but for the cause.
func (p *pair) explanationsOf(id groupID) *explanations {
	known := p.explanations[id]
	if known == nil {
		if len(p.explanations) >= slack*maxGroups {
			p.endExplanations()
		}
		known = newExplanations()
		p.explanations[id] = known
	}
	return known
}

// explain notes what became of an attempt to find causes. Requests that waited for them are in their group from now on.
func (p *pair) explain(of Unexplained, result ExplainResult, causes []*evidencepb.Cause) {
	known := p.explanations[of.group]
	if known == nil {
		return // the groups were bounded meanwhile
	}
	waiting := known.pending[of.reasons]
	switch {
	case result == Found:
		p.noteCauses(of, known, causes)
	case waiting == nil:
	case isReasons(of.reasons):
		waiting.underWay, waiting.failed = false, result == Failed
	default: // there is no other attempt
		p.release(of.group, known, func(g *pendingGroup) bool { return g == waiting })
	}
}

// noteCauses notes the causes of a request, and of all others that wait for the same ones.
func (p *pair) noteCauses(of Unexplained, known *explanations, causes []*evidencepb.Cause) {
	cause := hashOf(causes)
	if !known.distinct[cause] && len(known.distinct) >= maxCauses {
		cause = unknownCause
	}
	known.distinct[cause] = true
	specific := isSpecific(causes) && of.reasons != of.specific
	if isReasons(of.reasons) {
		if specific {
			p.know(known, of.reasons, specificCause)
			p.know(known, of.specific, cause)
		} else {
			p.know(known, of.reasons, cause)
		}
	}
	waiting := known.pending[of.reasons]
	if waiting == nil {
		return
	}
	delete(known.pending, of.reasons)
	p.pending--
	explained := waiting.all()
	if specific {
		explained = waiting.parts[of.specific]
		delete(waiting.parts, of.specific)
		p.separate(of.group, known, waiting)
	}
	if explained == nil {
		return // there was no room for it
	}
	if cause != unknownCause {
		explained.causes = clipCauses(causes)
	}
	id := of.group
	id.cause = cause
	p.groupOf(id).add(explained)
}

// separate has each part of a group wait for causes of its own.
func (p *pair) separate(id groupID, known *explanations, waiting *pendingGroup) {
	p.addGroup(id, &waiting.rest)
	for specific, part := range waiting.parts {
		next := known.pending[specific]
		if next == nil && !p.mayExplain(id, known) {
			p.addGroup(id, part)
			continue
		}
		if next == nil {
			next = known.wait(specific)
			p.pending++
		}
		next.of(specific).add(part)
		next.count += part.count
	}
}

// know notes the hash of the causes for reasons, as long as there is room.
func (p *pair) know(known *explanations, reasons Reasons, cause string) {
	if _, again := known.causes[reasons]; !again && len(known.causes) < maxExplained {
		known.causes[reasons] = cause
		p.explained++
	}
}

// isSpecific reports whether one of the causes is a single place of data, which has no file.
func isSpecific(causes []*evidencepb.Cause) bool {
	return slices.ContainsFunc(causes, func(c *evidencepb.Cause) bool {
		return c.GetFile() == "" && !strings.HasPrefix(c.GetText(), change.EntriesOf)
	})
}

// isReasons reports whether these are reasons, and not those of one request that has none.
func isReasons(r Reasons) bool { return r[0] != 0 || r[1] != 0 || r[2] != 0 }

// explaining is how many requests are explained now.
func (p *pair) explaining() (n int64) {
	for _, known := range p.explanations {
		for _, waiting := range known.pending {
			if waiting.underWay {
				n++
			}
		}
	}
	return n
}

// endExplanations forgets all explanations: requests whose causes are looked for have unknown ones.
func (p *pair) endExplanations() {
	for id := range p.explanations {
		p.endExplanationsOf(id)
	}
}

// endExplanationsOf forgets the explanations of some groups.
func (p *pair) endExplanationsOf(id groupID) {
	known := p.explanations[id]
	delete(p.explanations, id)
	p.explained -= len(known.causes)
	p.release(id, known, always)
}

// release counts requests whose causes are looked for, of those that are chosen, among those of unknown causes.
func (p *pair) release(id groupID, known *explanations, chosen func(*pendingGroup) bool) {
	for reasons, waiting := range known.pending {
		if chosen(waiting) {
			p.addGroup(id, waiting.all())
			delete(known.pending, reasons)
			p.pending--
		}
	}
}

// allGroups returns the groups by their ID, with the requests whose causes are looked for among those of unknown
// causes. It is not modified.
func (p *pair) allGroups() map[groupID]*group {
	if p.pending == 0 {
		return p.groups
	}
	out := maps.Clone(p.groups)
	for id, known := range p.explanations {
		if len(known.pending) == 0 {
			continue
		}
		sum := &group{}
		if g := out[id]; g != nil {
			sum.add(g)
		}
		for _, waiting := range known.pending {
			sum.add(waiting.all())
		}
		out[id] = sum
	}
	return out
}

// hashOf returns the hash of causes.
func hashOf(causes []*evidencepb.Cause) string {
	h := sha256.New()
	for _, c := range causes {
		for _, text := range []string{c.GetFile(), c.GetText()} {
			h.Write(binary.AppendUvarint(nil, uint64(len(text))))
			h.Write([]byte(text))
		}
		h.Write(binary.AppendVarint(nil, int64(c.GetLine())))
	}
	return string(h.Sum(nil)[:causeSize])
}

// clipCauses returns causes as evidence has them.
func clipCauses(causes []*evidencepb.Cause) (out []*evidencepb.Cause) {
	for _, c := range causes {
		out = append(out, &evidencepb.Cause{File: clip(c.GetFile(), maxFile), Line: c.GetLine(), Text: clip(c.GetText(), maxCause)})
	}
	return slices.Clip(out)
}
