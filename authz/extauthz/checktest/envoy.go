package checktest

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// folders are where requests of a real Envoy are, seen from extauthz, from the packages in it
// and from those next to it: those of the repository, and all that were recorded, if they are next to it. The
// same name is the same request in both.
var folders = []string{
	"testdata/envoy", "../testdata/envoy", "../extauthz/testdata/envoy",
	"../../../shared/envoy/requests", "../../../../shared/envoy/requests",
}

// Envoy returns requests that a real Envoy sent :: setting/case → the wire. They are
// what keeps the tests honest: requests written by hand have only what their author
// knew of. Too few of them is a failure, since a test over no files passes.
func Envoy(t testing.TB) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	for _, folder := range folders {
		addRequests(t, out, os.DirFS(folder))
	}
	if len(out) < 16 {
		t.Fatalf("only %d requests of Envoy's were found", len(out))
	}
	return out
}

func addRequests(t testing.TB, out map[string][]byte, folder fs.FS) {
	t.Helper()
	files, err := fs.Glob(folder, "*/*.binpb")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := fs.ReadFile(folder, file)
		if err != nil {
			t.Fatal(err)
		}
		out[path.Base(path.Dir(file))+"/"+strings.TrimSuffix(path.Base(file), ".binpb")] = content
	}
}
