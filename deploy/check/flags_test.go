package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// declared matches the declaration of a flag of serve.
var declared = regexp.MustCompile(`f\.\w+Var\(&c\.[\w.]+, "([a-z-]+)"`)

// variables are the environment variables of the flags of serve, as its source
// declares them: a main package cannot be imported.
func variables(t *testing.T) map[string]bool {
	t.Helper()
	var files []string
	for _, room := range []string{"", "port/", "storage/", "telemetry/"} {
		found, err := filepath.Glob("../cmd/understudy/" + room + "*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	known := make(map[string]bool)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(source, -1) {
			known["UNDERSTUDY_"+strings.ToUpper(strings.ReplaceAll(string(m[1]), "-", "_"))] = true
		}
	}
	if !known["UNDERSTUDY_AUTHZ_ADDR"] || !known["UNDERSTUDY_STORE"] {
		t.Fatalf("the flags of serve were not found in its source, only %v", known)
	}
	return known
}
