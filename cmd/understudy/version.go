package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"understudy/cmd/understudy/command"
)

// version is set by the linker.
var version = "dev"

// build is what is known of how this program was built. Its JSON is for scripts.
type build struct {
	Version string `json:"version"`
	// Commit and Time are of the source, and Modified says that it differed from that commit. They are
	// empty where the build had no repository.
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commitTime,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Go is the version of the compiler, and OPA that of the library whose Rego this is.
	Go       string `json:"goVersion"`
	OPA      string `json:"opaVersion,omitempty"`
	Platform string `json:"platform"`
}

// opaModule is the path of OPA's module.
const opaModule = "github.com/open-policy-agent/opa"

// thisBuild reads what the linker has written into the program.
func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.read(info)
	return b
}

// read takes what a build's information says. A program that `go install` built has no version of
// the linker's, but that of its module.
func (b *build) read(info *debug.BuildInfo) {
	if b.Version == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		if m.Path == opaModule {
			b.OPA = m.Version
		}
	}
}

// print writes what is known, a line each.
func (b build) print(out io.Writer) {
	commit := b.Commit
	if commit != "" && b.Modified {
		commit += ", modified"
	}
	fmt.Fprintf(out, "understudy %s\n", b.Version)
	for _, line := range [][2]string{{"commit", commit}, {"committed", b.Time}, {"go", b.Go}, {"opa", b.OPA}, {"platform", b.Platform}} {
		if line[1] != "" {
			fmt.Fprintf(out, "  %-10s %s\n", line[0], line[1])
		}
	}
}

// newVersion says what is running, for bug reports and for scripts that need a feature.
func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and of what it was built with",
		Long: `Print the version of this program, with the commit and the version of OPA whose
Rego it evaluates. A server says its own version at /readyz of its health port,
and 'understudy nodes' lists those of all sidecars.`,
		Example: `  understudy version -o json | jq -r .version`,
		Args:    command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "text":
				thisBuild().print(cmd.OutOrStdout())
				return nil
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(thisBuild())
			default:
				return command.Usage(fmt.Errorf("--output: it is text or json"))
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	command.CompleteOutput(cmd, "text", "json")
	return cmd
}
