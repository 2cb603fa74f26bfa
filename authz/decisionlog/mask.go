package decisionlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"understudy/authz"
	"understudy/rego"
)

// codeMask is the code of an event that is written without input and result, because
// it is not known what has to be masked in them.
const codeMask = "MASK_FAILED"

var errRulesUnknown = errors.New("the policy could not be loaded, and they with it")

// mask is one change of an event: a removal, or with upsert a new value. They are those
// of OPA's system.log.mask, in both of its forms:
//
//	"/input/attributes/request/http/body"
//	{"op": "upsert", "path": "/input/attributes/request/http/headers/x-user", "value": "hidden"}
type mask struct {
	at     pointer
	upsert bool
	value  any
}

// evalRules evaluates the policy's rules for the log. First the drop rule, since an
// event that is dropped needs no masks. The clock is that of the request, so that a
// rule decides the same however long the event has waited. The error says why it is not
// known what they want; it quotes nothing of the event.
func (l *Log) evalRules(ctx context.Context, d Decided, e *event) (drop bool, masks []mask, err error) {
	if d.Policy == "" || d.Broken {
		return false, nil, errRulesUnknown
	}
	// Most policies have no rules for the log: the copy of the event is not made for
	// them.
	if p := d.Compiled; p == nil || !p.HasLogRule(authz.LogDropPath) && !p.HasLogRule(authz.LogMaskPath) {
		return false, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	input, err := e.asInput()
	if err != nil {
		return false, nil, err
	}
	value, err := d.Compiled.EvalLogRule(ctx, authz.LogDropPath, input, d.Request.Time)
	if err != nil || value == true {
		return value == true, nil, err
	}
	if value, err = d.Compiled.EvalLogRule(ctx, authz.LogMaskPath, input, d.Request.Time); err != nil {
		return false, nil, err
	}
	masks, err = parseMasks(value)
	return false, masks, err
}

// asInput returns the event as the rules see it: as it would be written without
// them, credentials too, so that a rule can put something in their place.
func (e *event) asInput() (rego.Input, error) {
	head := *e
	head.Input, head.Result, head.PolicyLabels = nil, nil, nil
	text, err := head.json()
	if err != nil {
		return rego.Input{}, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	document := make(map[string]any)
	if err := decoder.Decode(&document); err != nil {
		return rego.Input{}, err
	}
	// Input, result and labels are documents already; only the head goes through JSON.
	maps.Copy(document, e.tree())
	return rego.NewInput(document)
}

// parseMasks reads the value of the mask rule. What it does not understand is an error,
// for it would have masked something: then the event loses input and result.
func parseMasks(value any) ([]mask, error) {
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s; it has to be a set", authz.LogMaskPath, authz.TypeName(value))
	}
	masks := make([]mask, len(list))
	for i, element := range list {
		var err error
		if masks[i], err = parseMask(element); err != nil {
			return nil, fmt.Errorf("an element of %s %w", authz.LogMaskPath, err)
		}
	}
	return masks, nil
}

func parseMask(element any) (m mask, err error) {
	path, op := element, any("remove")
	if o, ok := element.(map[string]any); ok {
		path, op, m.value = o["path"], o["op"], o["value"]
	}
	text, ok := path.(string)
	if !ok {
		return mask{}, errors.New("has no path that is a string")
	}
	if m.at, err = parsePointer(text); err != nil {
		return mask{}, err
	}
	// OPA has a third part, which there is nothing of here.
	if !slices.Contains([]string{partInput, partResult, partLabels, "nd_builtin_cache"}, m.at[0]) {
		return mask{}, errors.New("leads neither into /input nor into /result nor into /policy_labels")
	}
	m.upsert = op == "upsert"
	if !m.upsert && op != "remove" {
		return mask{}, errors.New("has an op that is neither remove nor upsert")
	}
	return m, nil
}

// mask applies the masks in order, each to what the ones before it left; an index is
// that of the whole array. One that leads nowhere changes nothing, as OPA has it.
func (e *event) mask(masks []mask, known secrets) {
	tree := e.tree()
	for _, m := range masks {
		switch {
		case !m.upsert && m.at.remove(tree):
			e.Erased = noted(e.Erased, m.at)
		case m.upsert && tree[m.at[0]] != nil && m.at.upsert(tree, known.hideIn(m.value)):
			e.Masked = noted(e.Masked, m.at)
		}
	}
	compact(tree)
	e.setTree(tree)
}

// noted appends a pointer to a list that does not have it.
func noted(list []string, at pointer) []string {
	if text := at.String(); !slices.Contains(list, text) {
		return append(list, text)
	}
	return list
}
