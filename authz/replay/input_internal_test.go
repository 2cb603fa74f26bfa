package replay

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/authz/logreader"
	"understudy/rego"
)

// FuzzInput holds the input documents against those that encoding/json makes.
func FuzzInput(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2,1.50,1e3,"\u00e9\"",true,false,null,{},[]],"b":{"c":"d","c":1},"":12345678901234567890}`))
	f.Add([]byte(`["\ud800", "` + "\xff" + `"]`))
	f.Add([]byte("\"\" "))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		d := logreader.Document(bytes.TrimSpace(text))
		document, err := d.Value()
		if err != nil {
			return
		}
		value, err := rego.ValueOf(document)
		if err != nil {
			return
		}
		got, err := inputOf(d)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := value.Input().Document()
		have, _ := got.Document()
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
