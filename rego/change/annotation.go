package change

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/compile"
)

// annotations are those of the modules, if a rule that matters may read them, as rego.metadata.rule() does: then they
// decide like anything else. What requests show of them is not found out.
func (p *policy) annotations(sources map[string]string) (out []Setting) {
	reads := func(d *definition) bool { return d.reached && d.words["rego"] && d.words["metadata"] }
	if !slices.ContainsFunc(p.definitions, reads) {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		m, err := ast.ParseModuleWithOpts(file, sources[file], ast.ParserOptions{
			Capabilities: compile.Capabilities, RegoVersion: ast.RegoV1, ProcessAnnotation: true,
		})
		if err != nil { // of annotations: the text is all there is
			out = append(out, Setting{Name: "METADATA in " + file, Text: sources[file], Filter: -1})
			continue
		}
		for _, a := range m.Annotations {
			out = append(out, Setting{Name: "METADATA of " + a.GetTargetPath().String(), Text: annotationText(a), Filter: -1})
		}
	}
	return out
}

func annotationText(a *ast.Annotations) string {
	text, err := json.Marshal(a)
	if err != nil {
		return a.String()
	}
	return string(text)
}
