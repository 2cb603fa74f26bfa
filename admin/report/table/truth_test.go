package table_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// truth is what is true of one traffic, and what the verdict has to say.
type truth struct {
	// The requests compared, and how many of them the candidate alone denies, alone allows, answers
	// otherwise, or fails to decide.
	compared, denied, allowed, changed, failed int64
	// seen are the labels of the items that the requests show.
	seen    []string
	verdict string
}

// readTruth reads a line of the table: a traffic, five counts, the labels seen, and the verdict.
func (r *row) readTruth(line string) error {
	words := strings.Fields(line)
	if len(words) < 8 || !slices.Contains(traffics, words[0]) {
		return fmt.Errorf("it is no line of the table: traffic compared denied allowed changed failed seen verdict")
	}
	out := &truth{verdict: strings.Join(words[7:], " ")}
	for i, to := range []*int64{&out.compared, &out.denied, &out.allowed, &out.changed, &out.failed} {
		n, err := strconv.ParseInt(words[1+i], 10, 64)
		if err != nil {
			return err
		}
		*to = n
	}
	switch words[6] {
	case "none":
	case "all":
		for _, i := range r.items {
			out.seen = append(out.seen, i.label)
		}
	default:
		for label := range strings.SplitSeq(words[6], ",") {
			out.seen = append(out.seen, ranged(label)...)
		}
	}
	r.truths[words[0]] = out
	return nil
}

// differing is how many requests are not decided alike.
func (t *truth) differing() int64 { return t.denied + t.allowed + t.changed + t.failed }

// readSentence reads `traffic: a sentence`.
func readSentence(to map[string]string, line string) error {
	of, sentence, found := strings.Cut(line, ": ")
	if !found || !slices.Contains(traffics, of) {
		return fmt.Errorf("it is no sentence about a traffic: meets: a sentence")
	}
	to[of] = sentence
	return nil
}

// contradictions are where what a row says of a traffic breaks what a verdict may claim.
func (r *row) contradictions(traffic string) (out []string) {
	truth := r.truths[traffic]
	if truth == nil {
		return []string{"it does not say what is true"}
	}
	known := make(map[string]bool)
	for _, i := range r.items {
		known[i.label] = true
	}
	for _, label := range truth.seen {
		if !known[label] {
			out = append(out, "there is no item "+label)
		}
	}
	all := len(truth.seen) == len(r.items)
	unmet := truth.denied+truth.allowed+truth.failed > 0
	want := "Ready"
	switch {
	case traffic == overloaded:
		want = "Not yet"
	case unmet, !all, truth.changed > 0:
		want = "Look first"
	}
	bothDeny := truth.verdict == "Not yet" && !unmet && !all // and so no request counts
	if truth.verdict != want && !bothDeny {
		out = append(out, fmt.Sprintf("the verdict is %q; with these counts and items it has to be %q", truth.verdict, want))
	}
	if met := r.truths[meets]; met != nil && met.differing() > 0 && truth.verdict == "Ready" && r.unknowable[traffic] == "" {
		out = append(out, "it is ready though there are requests that would be decided otherwise: why cannot that be known?")
	}
	return out
}
