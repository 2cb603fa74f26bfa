package rego_test

import (
	"testing"
	"time"

	"understudy/rego"
)

func TestDataReference(t *testing.T) {
	for path, want := range map[string]string{
		"corp/log/hide":   "data.corp.log.hide",
		"corp/my-log/if":  `data.corp["my-log"]["if"]`,
		"a/\"b\\\n/0":     `data.a["\"b\\\n"]["0"]`,
		"default/package": `data["default"]["package"]`,
	} {
		reference := rego.DataReference(path)
		if reference != want {
			t.Errorf("%s is %s, want %s", path, reference, want)
		}
		p, err := rego.Compile(t.Context(), rego.Source{Modules: map[string]string{"x.rego": "package x\n\ny := " + reference}, Paths: []string{"x/y"}})
		if err != nil {
			t.Errorf("%s: %v", reference, err)
			continue
		}
		if _, err := p.Eval(t.Context(), "x/y", rego.Input{}, time.Now()); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
	}
}
