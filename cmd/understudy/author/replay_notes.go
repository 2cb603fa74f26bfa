package author

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/replay"
)

// maxNotes is how many of a list the notes have, but for JSON.
const maxNotes = 10

// notes are what the replay says beside the report, in sentences.
func (r *replayed) notes() []string {
	out := []string{strings.Join(r.read(), "; ")}
	if proto.Equal(authz.CompiledPart(r.live.policy), authz.CompiledPart(r.candidate.policy)) {
		out = append(out, "both policies have the same content: nothing can differ")
	}
	if r.interrupted {
		out = append(out, "interrupted: this is what was found before")
	}
	if n := r.result.Sampled; n > 0 {
		out = append(out, fmt.Sprintf("%s of %s entries are of a log that is a sample: it has all that was denied and a part of what was allowed, so shares are not those of the traffic",
			report.Number(n), report.Number(r.result.Entries)))
	}
	for _, s := range r.result.Skipped {
		out = append(out, fmt.Sprintf("%s of %s entries were not compared: %s", report.Number(s.Entries), report.Number(r.result.Entries), s.Reason))
	}
	for _, m := range upTo(r.result.Missing) {
		out = append(out, r.missing(m))
	}
	for _, b := range upTo(r.result.Examples) {
		out = append(out, fmt.Sprintf("%s: record %d cannot be read: %s", b.File, b.Record, b.Reason))
	}
	for _, s := range r.result.Unstable {
		out = append(out, fmt.Sprintf("the %s may decide otherwise about the same request at the same time, by chance", s))
	}
	return append(out, r.drift()...)
}

func upTo[T any](list []T) []T { return list[:min(len(list), maxNotes)] }

// read says what was found in the files.
func (r *replayed) read() []string {
	out := []string{count(r.result.Entries, "decision") + " read"}
	if !r.result.First.IsZero() {
		const layout = "2006-01-02 15:04:05"
		out[0] += fmt.Sprintf(", from %s to %s UTC", r.result.First.Format(layout), r.result.Last.Format(layout))
	}
	if n := r.result.Others; n > 0 {
		out = append(out, count(n, "other record"))
	}
	if n := r.result.Broken; n > 0 {
		out = append(out, count(n, "record")+" could not be read")
	}
	return out
}

// count is a number of things: "1 decision", "9,800 decisions".
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return report.Number(n) + " " + thing
}

// missing says in how many entries there is no field, and who asked them for it where.
func (r *replayed) missing(m replay.Missing) string {
	text := fmt.Sprintf("%s of %s entries have no %s, for which the %s asked them", report.Number(m.Entries), report.Number(r.result.Entries), m.Field, m.Side)
	if m.Place != "" {
		text += " in " + m.Place
	}
	return text
}

// driftWords say what the live policy makes now of what was decided then.
var driftWords = map[authz.Difference]string{
	authz.NewlyDenied: "was allowed, and is denied now", authz.NewlyAllowed: "was denied, and is allowed now",
	authz.ResponseChanged: "has another result now", authz.ExperimentFailed: "was decided, and fails now", authz.LiveFailed: "was not decided, and is now",
}

// drift says how far the live policy decides as the log says.
func (r *replayed) drift() (out []string) {
	d := r.result.Drift
	switch d.Known {
	case 0:
		return []string{"the log does not say what was decided then, so the replay cannot be checked"}
	case d.Same:
		return []string{fmt.Sprintf("check: the live policy decides %s of %s entries as the log says", report.Number(d.Same), report.Number(d.Known))}
	}
	out = append(out, fmt.Sprintf("drift: the live policy decides %s of %s entries otherwise than the log says", report.Number(d.Known-d.Same), report.Number(d.Known)))
	for _, g := range upTo(d.Groups) {
		text := fmt.Sprintf("drift: %s × %s %s %s", report.Number(g.Entries), g.Method, g.Path, driftWords[g.Kind])
		switch {
		case g.Other:
			text += "; another revision decided, " + g.Revision
		case g.Revision != "" && r.live.revision == "":
			text += "; revision " + g.Revision + " decided"
		case g.Revision != "":
			text += ", by the same revision: data, the clock or something that the log lacks has changed it"
		}
		out = append(out, text+"; the first is "+g.DecisionID)
	}
	return out
}

// replayJSON is what --output json has: the report as the API has it, and what the replay says
// beside it.
type replayJSON struct {
	Report json.RawMessage  `json:"report"`
	Replay *replayFactsJSON `json:"replay"`
}

// replayFactsJSON are the facts of a replay.
type replayFactsJSON struct {
	Live         replaySideJSON   `json:"live"`
	Candidate    replaySideJSON   `json:"candidate"`
	Entries      int64            `json:"entries"`
	Compared     int64            `json:"compared"`
	Sampled      int64            `json:"sampledEntries,omitempty"`
	OtherRecords int64            `json:"otherRecords"`
	Broken       int64            `json:"brokenRecords"`
	BrokenFirst  []replay.Broken  `json:"firstBrokenRecords,omitempty"`
	Skipped      []replay.Skipped `json:"notCompared,omitempty"`
	Missing      []replay.Missing `json:"missingFields,omitempty"`
	Unstable     []replay.Side    `json:"undeterministic,omitempty"`
	Drift        replay.Drift     `json:"drift"`
	Interrupted  bool             `json:"interrupted"`
}

// replaySideJSON is where one of the two policies comes from, and what names its content.
type replaySideJSON struct {
	From string `json:"from"`
	Etag string `json:"etag"`
}

// writeJSON prints both in one document.
func (r *replayed) writeJSON(made *adminpb.Report) error {
	encoded, err := protojson.Marshal(made)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(r.flags.client.Out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(replayJSON{encoded, &replayFactsJSON{
		Live: replaySideJSON{r.live.from, r.live.etag}, Candidate: replaySideJSON{r.candidate.from, r.candidate.etag},
		Entries: r.result.Entries, Compared: r.result.Compared, Sampled: r.result.Sampled, OtherRecords: r.result.Others, Broken: r.result.Broken, BrokenFirst: r.result.Examples,
		Skipped: r.result.Skipped, Missing: r.result.Missing, Unstable: r.result.Unstable, Drift: r.result.Drift, Interrupted: r.interrupted,
	}})
}
