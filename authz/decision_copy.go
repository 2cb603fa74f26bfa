package authz

import (
	"encoding/json"
	"slices"
	"strings"
)

// Detached returns a copy of the decision that shares no text with the request it was made for: a
// policy's texts may be parts of larger ones, which would stay in memory as long as the decision.
func (d Decision) Detached() Decision {
	d.Rule, d.Reason, d.Body = strings.Clone(d.Rule), strings.Clone(d.Reason), strings.Clone(d.Body)
	d.Headers, d.ResponseHeaders, d.SetQuery = cloneFields(d.Headers), cloneFields(d.ResponseHeaders), cloneFields(d.SetQuery)
	d.RemoveHeaders, d.RemoveQuery = cloneTexts(d.RemoveHeaders), cloneTexts(d.RemoveQuery)
	d.Labels = slices.Clone(d.Labels)
	for i, l := range d.Labels {
		d.Labels[i] = Label{strings.Clone(l.Name), strings.Clone(l.Value)}
	}
	if d.Metadata != nil {
		d.Metadata = cloneValue(d.Metadata).(map[string]any)
	}
	d.Value = cloneValue(d.Value)
	return d
}

func cloneFields(all []Field) []Field {
	all = slices.Clone(all)
	for i, f := range all {
		f.Name, f.Value = strings.Clone(f.Name), strings.Clone(f.Value)
		all[i] = f
	}
	return all
}

func cloneTexts(all []string) []string {
	all = slices.Clone(all)
	for i, text := range all {
		all[i] = strings.Clone(text)
	}
	return all
}

// cloneValue copies a value in the types of encoding/json.
func cloneValue(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Clone(v)
	case json.Number:
		return json.Number(strings.Clone(string(v)))
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = cloneValue(element)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, element := range v {
			out[strings.Clone(k)] = cloneValue(element)
		}
		return out
	}
	return v
}
