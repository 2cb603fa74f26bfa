package port

import (
	"net/netip"
	"slices"
	"sync"
)

// slots are what callers of whom nothing is known have of something at a time, in bounds. Where
// there is no more of it, somebody who came before loses it: anyone who is slow shuts nobody out. It
// is safe for concurrent use.
type slots struct {
	// most is how much there is, and mostOf how much of it one address has.
	most, mostOf int

	mu sync.Mutex
	// taken has the oldest slot first; size is that of all, and sizes :: address → that of its.
	taken []*slot
	size  int
	sizes map[netip.Prefix]int
	// lost is how many slots were taken away.
	lost int64
}

// slot is one that is taken.
type slot struct {
	of netip.Prefix
	// size is how much of the whole it is.
	size int
	// end ends whatever has the slot, when it is taken away. It is called by another goroutine.
	end func()
}

func newSlots(most, mostOf int) *slots {
	return &slots{most: most, mostOf: mostOf, sizes: make(map[netip.Prefix]int)}
}

// enter takes a slot for an address.
func (p *slots) enter(of netip.Prefix, size int, end func()) *slot {
	entered := &slot{of: of, end: end}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, entered)
	p.resize(entered, size)
	return entered
}

// grow makes a slot larger, if it is taken.
func (p *slots) grow(entered *slot, by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.taken, entered) {
		p.resize(entered, entered.size+by)
	}
}

// empty makes a slot as small as can be.
func (p *slots) empty(entered *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.taken, entered) {
		p.resize(entered, 0)
	}
}

// leave gives a slot back. One that was taken away is left out.
func (p *slots) leave(entered *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(entered)
}

// resize sets the size of a slot that is taken, and takes away what is too much then. It needs
// the lock.
func (p *slots) resize(entered *slot, size int) {
	p.add(entered.of, size-entered.size)
	entered.size = size
	for p.size > p.most || p.sizes[entered.of] > p.mostOf {
		loser := p.loser(entered.of)
		p.remove(loser)
		p.lost++
		go loser.end() // it may wait for a connection of somebody else
	}
}

// loser is whose slot is taken away so that an address gets one. If that has more than it may
// have, it is the oldest of its own. Otherwise it is the oldest of the address with the most:
// callers of a few addresses do not take the slots of all others.
func (p *slots) loser(of netip.Prefix) *slot {
	own := p.sizes[of] > p.mostOf
	var loser *slot
	for _, t := range p.taken {
		switch {
		case t.size == 0:
		case own && t.of == of:
			return t
		case loser == nil || p.sizes[t.of] > p.sizes[loser.of]:
			loser = t
		}
	}
	return loser
}

// remove needs the lock.
func (p *slots) remove(entered *slot) {
	if i := slices.Index(p.taken, entered); i >= 0 {
		p.taken = slices.Delete(p.taken, i, i+1)
		p.add(entered.of, -entered.size)
	}
}

// add needs the lock.
func (p *slots) add(of netip.Prefix, size int) {
	p.size += size
	if p.sizes[of] += size; p.sizes[of] == 0 {
		delete(p.sizes, of)
	}
}

// numbers returns how much is taken, and how many slots were taken away so far.
func (p *slots) numbers() (size int, lost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size, p.lost
}

// addressOf is whom a peer is counted as, by its address with a port: that of IPv4, or the /64
// of IPv6, which one machine may have whole. Peers without such an address are one.
func addressOf(peer string) netip.Prefix {
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap(), 64
	if addr.Is4() {
		bits = 32
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
