package evidence

import evidencepb "understudy/authz/evidence/v1"

// population is who sends some of the requests of a pair: the distinct callers, and how many of the
// requests have one that is known.
type population struct {
	callers  callers
	requests int64
}

// populations are those of a pair: of what the live policy allows, or denies, and of what of that the
// experiment decides the other way.
type populations struct{ allowed, denied, newlyDenied, newlyAllowed population }

func newPopulations() (all populations) {
	for _, p := range all.each() {
		p.callers.fine = true
	}
	return all
}

func (all *populations) each() []*population {
	return []*population{&all.allowed, &all.denied, &all.newlyDenied, &all.newlyAllowed}
}

// request counts the caller of a request of a cell.
func (all *populations) request(in cell, hash uint32) {
	switch {
	case in <= allowedFailed:
		all.allowed.add(hash)
	case in <= deniedFailed:
		all.denied.add(hash)
	}
	switch in {
	case newlyDenied:
		all.newlyDenied.add(hash)
	case newlyAllowed:
		all.newlyAllowed.add(hash)
	}
}

func (p *population) add(hash uint32) {
	p.callers.add(hash)
	p.requests++
}

// addStored adds those of a pair of evidence.
func (all *populations) addStored(m *evidencepb.Pair) {
	stored := []*evidencepb.Callers{m.GetAllowedCallers(), m.GetDeniedCallers(), m.GetNewlyDeniedCallers(), m.GetNewlyAllowedCallers()}
	for i, p := range all.each() {
		p.callers.addStored(stored[i].GetSet())
		p.requests += stored[i].GetRequests()
	}
}

// set writes them into a pair of evidence.
func (all *populations) set(m *evidencepb.Pair) {
	m.AllowedCallers, m.DeniedCallers = all.allowed.message(), all.denied.message()
	m.NewlyDeniedCallers, m.NewlyAllowedCallers = all.newlyDenied.message(), all.newlyAllowed.message()
}

// message returns it as evidence has it; nil if there is nobody.
func (p *population) message() *evidencepb.Callers {
	if p.requests == 0 {
		return nil
	}
	return &evidencepb.Callers{Set: p.callers.stored(), Requests: p.requests}
}
