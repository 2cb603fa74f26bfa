package evidence

import "slices"

// week are hours of the week, in UTC, a bit each: hour 0 begins on Monday at 00:00. It is stored
// without the zero bytes at its end.
type week [weekHours / 8]byte

const (
	weekHours  = 7 * 24
	hourMillis = 3_600_000
	// epochHour is the hour of the week at which Unix time begins: Thursday at 00:00.
	epochHour = 3 * 24
)

// add adds the hour of a time in Unix milliseconds, of which 0 is none.
func (w *week) add(at int64) {
	if at <= 0 {
		return
	}
	hour := (uint64(at)/hourMillis + epochHour) % weekHours
	w[hour/8] |= 1 << (hour % 8)
}

// addStored adds stored hours.
func (w *week) addStored(stored []byte) {
	for i, b := range stored[:min(len(stored), len(w))] {
		w[i] |= b
	}
}

// stored returns the hours as they are stored.
func (w *week) stored() []byte {
	n := len(w)
	for n > 0 && w[n-1] == 0 {
		n--
	}
	return slices.Clone(w[:n:n])
}

// Hours returns the hours of the week in stored ones, in order: 0 begins on Monday at 00:00 UTC.
func Hours(stored []byte) (hours []int32) {
	var w week
	w.addStored(stored)
	for hour := range int32(weekHours) {
		if w[hour/8]&(1<<(hour%8)) != 0 {
			hours = append(hours, hour)
		}
	}
	return hours
}
