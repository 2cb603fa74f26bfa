package replay

import (
	"reflect"
	"slices"
	"strings"

	"understudy/authz"
	"understudy/authz/logreader"
)

// drift is what an entry says of the replay: whether the live policy decides now as it was
// decided then.
type drift struct {
	// known says that the entry has what was decided then.
	known bool
	// kind is Unchanged if it is decided alike; else what is not the same.
	kind authz.Difference
	// revision is what the entry was decided by; empty if it does not say.
	revision string
}

// drifts makes drift. It keeps what it has read, since few results are distinct. It is used by
// one goroutine.
type drifts struct {
	results   map[string]authz.Decision
	revisions map[string]string
}

// maxResults bounds what drifts keep; a large result is not kept.
const (
	maxResults    = 4096
	maxKeptResult = 4096
)

func newDrifts() drifts {
	return drifts{make(map[string]authz.Decision), make(map[string]string)}
}

// of compares what an entry was decided with the live policy's decision of now.
func (d *drifts) of(live *side, e *logreader.Entry, now authz.Decision) drift {
	if !saysResult(live, e) {
		return drift{}
	}
	then, ok := d.decision(e)
	if !ok {
		return drift{}
	}
	out := drift{known: true, kind: kindOf(then, now), revision: d.revision(e)}
	// The value of a rule is compared with that of the same rule.
	if out.kind == authz.ResponseChanged && e.Path != "" && e.Path != now.RulePath() {
		out.kind = authz.Unchanged
	}
	return out
}

// saysResult reports whether an entry has the whole result of what the live policy decides now.
func saysResult(live *side, e *logreader.Entry) bool {
	return e.Check == nil && !touches(e.Erased, "/result") && !touches(e.Masked, "/result") && (e.Path == "" || live.asks(e.Path))
}

// kindOf is in what a decision of now differs from that of then.
func kindOf(then, now authz.Decision) authz.Difference {
	switch {
	case then.Failure != "" && now.Failure != "":
		return authz.Unchanged
	case then.Failure != "":
		return authz.LiveFailed
	case now.Failure != "":
		return authz.ExperimentFailed
	case then.Effect != now.Effect && now.Effect == authz.Deny:
		return authz.NewlyDenied
	case then.Effect != now.Effect:
		return authz.NewlyAllowed
	case !reflect.DeepEqual(then.Value, now.Value):
		return authz.ResponseChanged
	default:
		return authz.Unchanged
	}
}

// touches reports whether a pointer of a list leads to a part of the event, or below it.
func touches(pointers logreader.Document, part string) bool {
	for p := range pointers.Elements() {
		if text := p.Text(); text == part || strings.HasPrefix(text, part+"/") {
			return true
		}
	}
	return false
}

// decision returns what an entry was decided. OPA logs neither a result nor an error of a rule
// that is undefined.
func (d *drifts) decision(e *logreader.Entry) (authz.Decision, bool) {
	switch {
	case e.Error != nil:
		return authz.Failed(authz.FailureError, ""), true
	case e.Result == nil:
		return authz.Failed(authz.FailureUndefined, ""), true
	}
	if known, ok := d.results[string(e.Result)]; ok {
		return known, true
	}
	value, err := e.Result.Value()
	if err != nil {
		return authz.Decision{}, false
	}
	decision := authz.ResultOf(value)
	if len(e.Result) <= maxKeptResult {
		if len(d.results) >= maxResults {
			clear(d.results)
		}
		d.results[string(e.Result)] = decision
	}
	return decision, true
}

// revision names what was active when an entry was decided: of one bundle its revision, of
// several each with its name.
func (d *drifts) revision(e *logreader.Entry) string {
	if e.Bundles == nil {
		return e.Revision
	}
	if known, ok := d.revisions[string(e.Bundles)]; ok {
		return known
	}
	var names, revisions []string
	for name, bundle := range e.Bundles.Members() {
		if revision := bundle.At("revision").Text(); revision != "" {
			names, revisions = append(names, string(name)+" "+revision), append(revisions, revision)
		}
	}
	slices.Sort(names)
	text := strings.Join(names, ", ")
	if len(revisions) == 1 {
		text = revisions[0]
	}
	if len(d.revisions) >= maxResults {
		clear(d.revisions)
	}
	d.revisions[string(e.Bundles)] = text
	return text
}
