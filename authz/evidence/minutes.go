package evidence

import evidencepb "understudy/authz/evidence/v1"

// minutes are the counts of the last hour. What is older, or far ahead, is not in them.
type minutes [64]struct {
	minute int64
	counts counts
}

const minuteMillis = 60_000

// add counts at a time in Unix milliseconds.
func (m *minutes) add(at int64, what cell) {
	minute := at / minuteMillis
	slot := &m[minute&int64(len(m)-1)]
	if slot.minute != minute {
		if slot.minute > minute {
			return
		}
		slot.minute, slot.counts = minute, counts{}
	}
	slot.counts[what]++
}

// messages returns the last maxPoints minutes in which there was something, in order.
func (m *minutes) messages(now int64) []*evidencepb.Point {
	var out []*evidencepb.Point
	for minute := now/minuteMillis - maxPoints + 1; minute <= now/minuteMillis; minute++ {
		slot := &m[minute&int64(len(m)-1)]
		if slot.minute == minute && minute > 0 {
			out = append(out, &evidencepb.Point{Start: minute * minuteMillis / 1000, Counts: countsMessage(slot.counts)})
		}
	}
	return out
}
