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
	"understudy/cmd/understudy/terminal"
)

// maxNotes is how many of a list the notes have, but for JSON.
//
// A list that is longer has one cause, which its first entries show.
const maxNotes = 10

// notes are what the replay says next to the report, in sentences.
//
// A report says how many differ. The notes say how far that can be trusted: what was left out, what
// was not there to be asked for, and whether the recording agrees with the live policy at all.
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
	for _, b := range upTo(r.result.BrokenRecords) {
		out = append(out, fmt.Sprintf("%s: record %d cannot be read: %s", b.File, b.Record, b.Reason))
	}
	for _, s := range r.result.Unstable {
		out = append(out, fmt.Sprintf("the %s may decide otherwise about the same request at the same time, by chance", s))
	}
	return append(out, r.drift()...)
}

// upTo is the beginning of a list, as the notes have it.
func upTo[T any](list []T) []T { return list[:min(len(list), maxNotes)] }

// read says what was found in the files.
//
// Times are those of the entries, in UTC: logs of several machines are read together.
func (r *replayed) read() []string {
	out := []string{report.Counted(r.result.Entries, "decision") + " read"}
	if !r.result.First.IsZero() {
		const layout = "2006-01-02 15:04:05"
		out[0] += fmt.Sprintf(", from %s to %s UTC", r.result.First.Format(layout), r.result.Last.Format(layout))
	}
	if n := r.result.Others; n > 0 {
		out = append(out, report.Counted(n, "other record"))
	}
	if n := r.result.Broken; n > 0 {
		out = append(out, report.Counted(n, "record")+" could not be read")
	}
	return out
}

// missing says in how many entries there is no field, and who asked them for it where.
//
// A field is missing if it was erased or masked. One that the request did not have is no loss.
func (r *replayed) missing(m replay.MissingField) string {
	text := fmt.Sprintf("%s of %s entries have no %s, for which the %s asked them", report.Number(m.Entries), report.Number(r.result.Entries), m.Field, m.Side)
	if m.Position != "" {
		text += " in " + m.Position
	}
	return text
}

// driftWords say what the live policy makes now of what was decided then.
// driftWords: the log takes the place of the live policy, and the live policy that of the experiment.
var driftWords = map[authz.Difference]string{
	authz.NewlyDenied: "was allowed, and is denied now", authz.NewlyAllowed: "was denied, and is allowed now",
	authz.ResponseChanged: "has another result now", authz.ExperimentFailed: "was decided, and fails now", authz.LiveFailed: "was not decided, and is now",
}

// drift says how far the live policy decides as the log says.
//
// If the live policy decides otherwise than the log says, the replay is about another policy than the
// one that decided: then its differences are not those of yesterday.
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
// next to it.
//
// The report has its own JSON, of protobuf; the facts have no message, since no API has them.
type replayJSON struct {
	Report json.RawMessage  `json:"report"`
	Replay *replayFactsJSON `json:"replay"`
}

// replayFactsJSON are the facts of a replay.
// replayFactsJSON has lists that are absent where they are empty, and numbers as numbers.
type replayFactsJSON struct {
	Live         replaySideJSON        `json:"live"`
	Candidate    replaySideJSON        `json:"candidate"`
	Entries      int64                 `json:"entries"`
	Compared     int64                 `json:"compared"`
	Sampled      int64                 `json:"sampledEntries,omitempty"`
	OtherRecords int64                 `json:"otherRecords"`
	Broken       int64                 `json:"brokenRecords"`
	BrokenFirst  []replay.Broken       `json:"firstBrokenRecords,omitempty"`
	Skipped      []replay.Skipped      `json:"notCompared,omitempty"`
	Missing      []replay.MissingField `json:"missingFields,omitempty"`
	Unstable     []replay.Side         `json:"undeterministic,omitempty"`
	Drift        replay.Drift          `json:"drift"`
	Interrupted  bool                  `json:"interrupted"`
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
	return terminal.WriteValue(r.flags.client.Out, replayJSON{encoded, &replayFactsJSON{
		Live: replaySideJSON{r.live.from, r.live.etag}, Candidate: replaySideJSON{r.candidate.from, r.candidate.etag},
		Entries: r.result.Entries, Compared: r.result.Compared, Sampled: r.result.Sampled, OtherRecords: r.result.Others, Broken: r.result.Broken, BrokenFirst: r.result.BrokenRecords,
		Skipped: r.result.Skipped, Missing: r.result.Missing, Unstable: r.result.Unstable, Drift: r.result.Drift, Interrupted: r.interrupted,
	}})
}
