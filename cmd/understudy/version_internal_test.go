package main

import (
	"bytes"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBuildIsRead: a version of the linker's wins over that of the module, which is what `go install`
// knows; and what was not committed is said.
func TestBuildIsRead(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.2.0"},
		Deps: []*debug.Module{{Path: opaModule, Version: "v1.22.0"}},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-26T00:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	for linked, want := range map[string]string{"dev": "v0.2.0", "v0.1.0": "v0.1.0"} {
		b := build{Version: linked, Go: "go1.26.0", Platform: "linux/amd64"}
		b.read(info)
		if diff := cmp.Diff(build{
			Version: want, Commit: "abc", Time: "2026-11-26T00:00:00Z", Modified: true, Go: "go1.26.0", OPA: "v1.22.0", Platform: "linux/amd64",
		}, b); diff != "" {
			t.Errorf("linked with %s (-want +got):\n%s", linked, diff)
		}
		var out bytes.Buffer
		b.print(&out)
		text := "understudy " + want + "\n  commit     abc, modified\n  committed  2026-11-26T00:00:00Z\n" +
			"  go         go1.26.0\n  opa        v1.22.0\n  platform   linux/amd64\n"
		if diff := cmp.Diff(text, out.String()); diff != "" {
			t.Errorf("printed (-want +got):\n%s", diff)
		}
	}
}

// TestBuildWithoutARepository: a tarball has no commit, and a test no version of a module.
func TestBuildWithoutARepository(t *testing.T) {
	b := build{Version: "dev"}
	b.read(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}})
	if diff := cmp.Diff(build{Version: "dev"}, b); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
