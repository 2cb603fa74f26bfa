package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/axiomhq/hyperloglog"

	"understudy/authz"
)

// callers is a set of callers, of which a group lists up to maxListed, and another set up to maxExact: these are counted
// exactly, and more are estimated. Where there is no room, a list of more than maxExact becomes an estimate, too. The zero
// value is the empty set. Sets share no memory with each other.
//
// A set is stored as the list of hashes behind a zero byte, or as the sketch in the library's
// form, which begins with its version; the empty set is stored as nothing.
type callers struct {
	// fine says that the sketch has 256 registers in place of 64, which halves the error.
	fine bool
	// listed are the hashes, sorted, as long as there is no sketch.
	listed []uint32
	// sketch is of all callers; nil as long as they are listed.
	sketch *hyperloglog.Sketch
}

const (
	maxListed = 1024
	maxExact  = 32
	hashBytes = 4
	// precision is the number of registers as a power of two, and with 64 of them the standard
	// error is 13 %; finePrecision is that of a fine set, with 6.5 %. Sketches of two precisions
	// cannot be merged.
	precision     = 6
	finePrecision = 8
	fineError     = 0.065
	headerBytes   = 8
)

// limit is how many are listed.
func (c *callers) limit() int {
	if c.fine {
		return maxExact
	}
	return maxListed
}

// precision is that of the sketch.
func (c *callers) precision() uint8 {
	if c.fine {
		return finePrecision
	}
	return precision
}

// isSketch reports whether a stored set is a sketch of the precision of this one. Each begins with
// the library's version, the precision, no bias, not sparse, and the number of registers. The
// library reads other forms, too: none of those was written here, and some take much memory.
func (c *callers) isSketch(stored []byte) bool {
	p := c.precision()
	header := binary.BigEndian.AppendUint32([]byte{2, p, 0, 0}, 1<<p)
	return len(stored) == headerBytes+1<<p && bytes.HasPrefix(stored, header)
}

// Callers returns the number of distinct callers in stored sets of groups together: exactly up to 32, and up to 1,024 where
// there was room for the lists; more with a standard error of 13 %. One that is not readable has none.
func Callers(stored ...[]byte) int64 {
	var c callers
	for _, set := range stored {
		c.addStored(set)
	}
	return c.count()
}

// JoinCallers returns the stored set of all callers in stored sets of groups.
func JoinCallers(stored ...[]byte) []byte {
	var c callers
	for _, set := range stored {
		c.addStored(set)
	}
	return c.stored()
}

// OtherCallers reports whether some stored set of a group has a caller that is not known. Between
// lists that is exact; a sketch may hide some, and never makes up one.
func OtherCallers(known []byte, seen ...[]byte) bool {
	for _, set := range seen {
		var before callers
		before.addStored(known)
		if before.sketch == nil && listBytes(set) {
			if len(mergeSorted(before.listed, listOf(set))) > len(before.listed) {
				return true
			}
			continue
		}
		before.estimate()
		if short := before.stored(); !bytes.Equal(short, JoinCallers(short, set)) {
			return true
		}
	}
	return false
}

// FewestCallers returns how many callers there are at least, with a confidence of 97.5 %, where [PairCallers] has
// counted n.
func FewestCallers(n int64) int64 {
	if n <= maxExact {
		return n
	}
	return max(maxExact+1, n-estimateOff(n))
}

// IsEstimate reports whether a number of callers may be an estimate: up to 32 are counted exactly.
func IsEstimate(n int64) bool { return n > maxExact }

// estimateOff is two standard errors of what [PairCallers] estimates.
func estimateOff(n int64) int64 { return int64(math.Ceil(2 * fineError * float64(n))) }

// PairCallers returns the number of distinct callers in stored sets of pairs together: exactly up to
// 32, more with a standard error of 6.5 %. off is two of those, by which there may be fewer or more;
// 0 if the number is exact.
func PairCallers(stored ...[]byte) (n, off int64) {
	c := callers{fine: true}
	for _, set := range stored {
		c.addStored(set)
	}
	n = c.count()
	if c.sketch != nil {
		off = estimateOff(n)
	}
	return n, off
}

// caller is the hash of who asks, if that is known.
type caller struct {
	hash  uint32
	known bool
}

// callerLabel is the label that names the caller. Without it all labels together do.
const callerLabel = "caller"

// endOfText is behind each text of what is hashed. No text has this byte: none can be cut elsewhere.
const endOfText = "\xff"

// callerOf returns who asks: the principal, else what the labels name, else the subject of a token. The hash is under
// the unique ID of the experiment, so that nobody who does not know that can choose a name with the hash of another one.
func callerOf(uid string, r *authz.Request, labelled string) caller {
	var room [256]byte
	text := append(append(room[:0], uid...), endOfText...)
	switch {
	case r.Principal != "":
		text = append(append(text, "principal"+endOfText...), r.Principal...)
	case labelled != "":
		text = append(append(text, "labels"+endOfText...), labelled...)
	case r.Subject != nil:
		issuer, subject := r.Subject()
		if subject == "" {
			return caller{}
		}
		text = append(append(text, "subject"+endOfText...), issuer...)
		text = append(append(text, endOfText...), subject...)
	default:
		return caller{}
	}
	sum := sha256.Sum256(text)
	return caller{binary.BigEndian.Uint32(sum[:]), true}
}

// callerOfLabels returns whom labels name: all names and values, or those of one label; empty if there are none.
func callerOfLabels(labels []authz.Label) (text string) {
	if i := slices.IndexFunc(labels, func(l authz.Label) bool { return l.Name == callerLabel }); i >= 0 {
		labels = labels[i : i+1]
	}
	for _, l := range labels {
		text += l.Name + endOfText + l.Value + endOfText
	}
	return text
}

// add adds a caller by its hash.
func (c *callers) add(hash uint32) {
	if c.sketch == nil {
		at, known := slices.BinarySearch(c.listed, hash)
		if known {
			return
		}
		if len(c.listed) < c.limit() {
			c.listed = slices.Insert(c.listed, at, hash)
			return
		}
		c.estimate()
	}
	c.sketch.InsertHash(wide(hash))
}

// wide returns a hash with as many bits as the library reads.
func wide(hash uint32) uint64 { return uint64(hash)<<32 | uint64(hash) }

// estimate replaces the list by a sketch.
func (c *callers) estimate() {
	if c.sketch != nil {
		return
	}
	sketch, err := hyperloglog.NewSketch(c.precision(), false)
	if err != nil {
		panic(err) // of another precision
	}
	for _, hash := range c.listed {
		sketch.InsertHash(wide(hash))
	}
	c.listed, c.sketch = nil, sketch
}

// addAll adds the callers of another set.
func (c *callers) addAll(other callers) {
	c.addList(other.listed)
	if other.sketch == nil {
		return
	}
	c.estimate()
	if err := c.sketch.Merge(other.sketch); err != nil {
		panic(err) // of another precision
	}
}

// addList adds hashes, which are sorted.
func (c *callers) addList(hashes []uint32) {
	if c.sketch == nil {
		all := mergeSorted(c.listed, hashes)
		if len(all) <= c.limit() {
			c.listed = all
			return
		}
		c.estimate()
	}
	for _, hash := range hashes {
		c.sketch.InsertHash(wide(hash))
	}
}

// mergeSorted returns what is in one of two lists, which are sorted, each once.
func mergeSorted(a, b []uint32) []uint32 {
	out := make([]uint32, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		least := min(a[0], b[0])
		out = append(out, least)
		if a[0] == least {
			a = a[1:]
		}
		if b[0] == least {
			b = b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// addStored adds the callers of a stored set. One that is not readable has none.
func (c *callers) addStored(stored []byte) {
	if listBytes(stored) {
		c.addList(listOf(stored))
		return
	}
	if !c.isSketch(stored) {
		return
	}
	sketch := new(hyperloglog.Sketch)
	if sketch.UnmarshalBinary(stored) == nil { // an error is a register that cannot be
		c.addAll(callers{fine: c.fine, sketch: sketch})
	}
}

// listBytes reports whether a stored set is a list.
func listBytes(stored []byte) bool {
	return len(stored) > 0 && stored[0] == 0 && len(stored)%hashBytes == 1 && len(stored) <= 1+maxListed*hashBytes
}

// listOf returns the hashes of a stored list. Those that others have written may be in any order.
func listOf(stored []byte) []uint32 {
	out := make([]uint32, 0, len(stored)/hashBytes)
	for at := 1; at < len(stored); at += hashBytes {
		out = append(out, binary.BigEndian.Uint32(stored[at:]))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// count returns how many callers there are, or about how many.
func (c *callers) count() int64 {
	if c.sketch == nil {
		return int64(len(c.listed))
	}
	// Registers that are all full, which only other programs write, come to more than an int64.
	return int64(min(c.sketch.Estimate(), math.MaxUint32)) // it is bounded
}

// stored returns the set as it is stored.
func (c *callers) stored() []byte {
	if c.sketch != nil {
		out, err := c.sketch.MarshalBinary()
		if err != nil {
			panic(err) // of a sketch that nobody made
		}
		return out
	}
	if len(c.listed) == 0 {
		return nil
	}
	out := make([]byte, 1, 1+len(c.listed)*hashBytes)
	for _, hash := range c.listed {
		out = binary.BigEndian.AppendUint32(out, hash)
	}
	return out
}

// shortCallers returns a stored set as a sketch, if more are listed than have to be.
func shortCallers(stored []byte) []byte {
	if len(stored) <= 1+maxExact*hashBytes || !listBytes(stored) {
		return stored
	}
	var c callers
	c.addStored(stored)
	c.estimate()
	return c.stored()
}
