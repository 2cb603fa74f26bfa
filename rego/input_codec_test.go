package rego_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
)

// documents are input documents as fronts make them, and some that they do not.
var documents = []string{
	`{}`,
	`{"attributes":{"request":{"http":{"method":"GET","path":"/","headers":{"x":"y"}}}},"parsed_path":["a",""],"truncated_body":false}`,
	`{"a":null,"b":[true,false,[],{}],"c":[1,-0.5,1e400,1000000000000000000000000000001,0.10],"":"","ü":"\u0000"}`,
}

func inputOf(t testing.TB, text string) rego.Input {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		t.Fatal(err)
	}
	in, err := rego.NewInput(document)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestEncodedInputIsExact(t *testing.T) {
	for _, text := range documents {
		in := inputOf(t, text)
		encoded, err := rego.AppendInput(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := rego.ParseInput(encoded)
		if err != nil {
			t.Fatalf("ParseInput of %s: %v", text, err)
		}
		want, _ := in.Document()
		got, err := out.Document()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s is another document (-want +got), %v:\n%s", text, err, diff)
		}
	}
	encoded, err := rego.AppendInput(nil, rego.Input{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := rego.ParseInput(encoded)
	if got, _ := out.Document(); got != nil || err != nil {
		t.Errorf("no document is %v, %v; want nil", got, err)
	}
}

// FuzzParseInput shows that no bytes panic, and that what is accepted is encoded again.
func FuzzParseInput(f *testing.F) {
	for _, text := range documents {
		encoded, err := rego.AppendInput(nil, inputOf(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		in, err := rego.ParseInput(encoded)
		if err != nil {
			return
		}
		again, err := rego.AppendInput(nil, in)
		if err != nil {
			t.Fatalf("what was parsed cannot be encoded: %v", err)
		}
		twice, err := rego.ParseInput(again)
		if err != nil {
			t.Fatalf("what was encoded cannot be parsed: %v", err)
		}
		if last, err := rego.AppendInput(nil, twice); err != nil || !bytes.Equal(again, last) {
			t.Errorf("the form of a document is %x and then %x, %v", again, last, err)
		}
	})
}
