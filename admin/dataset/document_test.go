package dataset_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/admin/dataset"
)

func TestCanonical(t *testing.T) {
	for given, want := range map[string]string{
		`{}`:                                   `{}`,
		" [ 1 , 2.50 ,\n-0, 1e2, 1E-7 ] ":      `[1,2.5,-0,100,1e-7]`,
		`{"b":1,"a":{"d":null,"c":true}}`:      `{"a":{"c":true,"d":null},"b":1}`,
		`{"é":"\u00e9","e":"\u003c&>"}`:        `{"e":"<&>","é":"é"}`,
		`"\ud83d\ude00\n\"\\"`:                 `"😀\n\"\\"`,
		`{"z":[{"y":1,"x":[]}],"":0}`:          `{"":0,"z":[{"x":[],"y":1}]}`,
		`9007199254740992`:                     `9007199254740992`,
		`{"b":{"y":1,"x":2},"a":[{"q":1}, 7]}`: `{"a":[{"q":1},7],"b":{"x":2,"y":1}}`,
	} {
		got, err := dataset.Canonical([]byte(given), dataset.MaxSize)
		if err != nil || string(got) != want {
			t.Errorf("%s is %s, %v; want %s", given, got, err, want)
		}
		if err := dataset.Check(got); err != nil {
			t.Errorf("%s is not as it is kept: %v", got, err)
		}
	}
}

// What is refused says where, and what to do. A parser elsewhere would read most of it in another
// way, and decide by that.
func TestRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33)
	for given, want := range map[string]string{
		``:                            "It ends before the document does",
		`{"a":`:                       "It ends before the document does",
		`{"a":1} {}`:                  "There is something behind the document",
		`{a:1}`:                       "It is not JSON, at byte",
		`[1,]`:                        "It is not JSON, at byte",
		`{"a":{"b c":1,"b c":2}}`:     `at .a["b c"]: The object has this key twice.`,
		`{"a":1,"\u0061":2}`:          `at .a: The object has this key twice.`,
		`[{"id":9007199254740993}]`:   `at [0].id: The number 9007199254740993 is not kept exactly`,
		`1e400`:                       `The number 1e400 is not kept exactly`,
		`1e-400`:                      `The number 1e-400 is not kept exactly`,
		deep:                          "More than 32 objects and lists are in each other here.",
		strings.Repeat("[", 100_000):  "More than 32 objects and lists are in each other here.",
		"\"\xff\"":                    "It is not UTF-8.",
		"\xef\xbb\xbf{}":              "It is not JSON",
		`"\ud800"`:                    `The escape \ud800 at byte 1 is half of a character.`,
		`{"\udc00":1,"\udc01":2}`:     `The escape \udc00 at byte 2 is half of a character.`,
		`"\ud800\u0041"`:              `The escape \ud800 at byte 1 is half of a character.`,
		`"` + strings.Repeat("x", 70): "The document has 71 bytes; the limit is 64.",
	} {
		limit := dataset.MaxSize
		if strings.Contains(want, "limit is 64") {
			limit = 64
		}
		_, err := dataset.Canonical([]byte(given), limit)
		var refused *dataset.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.40s: %v; want %s", given, err, want)
		}
	}
}

func TestPatch(t *testing.T) {
	const document = `{"u1":{"roles":["viewer"]},"u2":{"roles":[]}}`
	for patch, want := range map[string]string{
		`[]`: document,
		`[{"op":"add","path":"/u3","value":{"roles":["admin"]}}]`:                                       `{"u1":{"roles":["viewer"]},"u2":{"roles":[]},"u3":{"roles":["admin"]}}`,
		`[{"op":"add","path":"/u1/roles/-","value":"admin"},{"op":"remove","path":"/u2"}]`:              `{"u1":{"roles":["viewer","admin"]}}`,
		`[{"op":"test","path":"/u1/roles/0","value":"viewer"},{"op":"replace","path":"/u2","value":1}]`: `{"u1":{"roles":["viewer"]},"u2":1}`,
		`[{"op":"move","from":"/u1","path":"/a~1b"}]`:                                                   `{"a/b":{"roles":["viewer"]},"u2":{"roles":[]}}`,
		`[{"op":"add","path":"/n","value":null}]`:                                                       `{"n":null,"u1":{"roles":["viewer"]},"u2":{"roles":[]}}`,
	} {
		got, err := dataset.Patch([]byte(document), []byte(patch), dataset.MaxSize)
		if err != nil || string(got) != want {
			t.Errorf("%s makes %s, %v; want %s", patch, got, err, want)
		}
	}
}

func TestRefusedPatch(t *testing.T) {
	bomb := `[{"op":"add","path":"/a","value":"` + strings.Repeat("x", 1000) + `"}`
	for i := range 200 {
		bomb += fmt.Sprintf(`,{"op":"copy","from":"/a","path":"/a%d"}`, i)
	}
	bomb += "]"
	for patch, want := range map[string]string{
		`{}`:                                                  "It is not a list of the operations",
		`[1]`:                                                 "It is not a list of the operations",
		`[{"op":"remove"}]`:                                   "It is not a list of the operations",
		`[{"op":"remove","path":"u1"}]`:                       "at [0]: The path u1 is no JSON Pointer",
		`[{"op":"add","path":"/a"}]`:                          "It is not a list of the operations",
		`[{"op":"drop","path":"/a"}]`:                         "It is not a list of the operations",
		`[{"op":"move","path":"/a"}]`:                         "It is not a list of the operations",
		`[{"op":"remove","path":"/nobody"}]`:                  "The patch does not fit the document",
		`[{"op":"remove","path":"/list/-1"}]`:                 "The patch does not fit the document",
		`[{"op":"test","path":"/list","value":[2]}]`:          "The patch does not fit the document",
		`[{"op":"add","path":"/a","value":{"k":1,"k":2}}]`:    "The object has this key twice",
		`[{"op":"add","path":"/a","value":9007199254740993}]`: "not kept exactly",
		bomb: "The patch does not fit the document",
		`[{"op":"add","path":"/a","value":"` + strings.Repeat("x", 2000) + `"}]`:      "the limit is 1000",
		`[{"op":"add","path":"/a","value":"` + strings.Repeat("x", 2_000_000) + `"}]`: "The patch has",
	} {
		_, err := dataset.Patch([]byte(`{"list":[1]}`), []byte(patch), 1000)
		var refused *dataset.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.60s: %v; want %s", patch, err, want)
		}
	}
}

// A document that is taken means the same to encoding/json as it did, and taking it again changes
// nothing.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[1.5,"\u00e9",null,true]}`, `{"a":1,"a":2}`, `"\ud83d\ude00"`, `[[[]]]`, `1e21`, "{\"\u2028\":0}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		kept, err := dataset.Canonical(document, 1<<16)
		if err != nil {
			return
		}
		var given, got any
		if err := json.Unmarshal(document, &given); err != nil {
			t.Fatalf("%q is not JSON: %v", document, err)
		}
		if err := json.Unmarshal(kept, &got); err != nil || !cmp.Equal(given, got) {
			t.Fatalf("%q is %q, %v", document, kept, err)
		}
		if again, err := dataset.Canonical(kept, 1<<17); err != nil || !bytes.Equal(again, kept) {
			t.Fatalf("%q is %q again, %v", kept, again, err)
		}
	})
}

// A patch that is taken leaves a document as it is kept.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":2}]}`), []byte(`[{"op":"move","from":"/a/1","path":"/c"},{"op":"copy","from":"/a","path":"/d"}]`))
	f.Add([]byte(`[]`), []byte(`[{"op":"add","path":"","value":{}}]`))
	f.Add([]byte(`{"a":null}`), []byte(`[{"op":"test","path":"/a/b","value":null}]`))
	f.Fuzz(func(t *testing.T, document, patch []byte) {
		kept, err := dataset.Canonical(document, 1<<16)
		if err != nil {
			return
		}
		changed, err := dataset.Patch(kept, patch, 1<<16)
		if refused := (*dataset.Error)(nil); err != nil && !errors.As(err, &refused) {
			t.Fatalf("%v is no error of a caller", err)
		}
		if err == nil && dataset.Check(changed) != nil {
			t.Fatalf("%q patched by %q is %q", kept, patch, changed)
		}
	})
}

// BenchmarkCanonical is 16 MiB of 130,000 users.
func BenchmarkCanonical(b *testing.B) {
	document := []byte{'{'}
	for i := range 130_000 {
		document = fmt.Appendf(document, `"u%d":{"roles":["viewer","editor"],"tenant":"t%d","mail":"user%d@example.com","active":true,"since":20%02d},`, i, i%500, i, i%90)
	}
	document[len(document)-1] = '}'
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		if _, err := dataset.Canonical(document, dataset.MaxSize); err != nil {
			b.Fatal(err)
		}
	}
}
