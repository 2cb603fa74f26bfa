// Package deploy_test checks the files that run Understudy, as far as that can be
// done without a container engine.
package deploy_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithWorkingDirectory(".."))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeHasAllParts(t *testing.T) {
	project := compose(t)
	names := project.ServiceNames()
	slices.Sort(names)
	want := []string{"collector", "envoy", "redis", "understudy", "upstream"}
	if !slices.Equal(names, want) {
		t.Errorf("services are %v; want %v", names, want)
	}
}

func TestComposeIsPinnedAndLocal(t *testing.T) {
	for name, s := range compose(t).Services {
		if _, tag, found := strings.Cut(s.Image, ":"); !found || tag == "latest" {
			t.Errorf("%s: the image %q is not pinned", name, s.Image)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published beyond this machine", name, p.Published)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: the mounted file is not there: %v", name, err)
			}
		}
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestComposeSetsRealFlags compares the variables with the flags of serve.
func TestComposeSetsRealFlags(t *testing.T) {
	source, err := os.ReadFile("../cmd/understudy/config.go")
	if err != nil {
		t.Fatal(err)
	}
	flags := make(map[string]bool)
	for _, m := range regexp.MustCompile(`f\.\w+Var\(&c\.\w+, "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		flags["UNDERSTUDY_"+strings.ToUpper(strings.ReplaceAll(m[1], "-", "_"))] = true
	}
	if len(flags) < 10 {
		t.Fatalf("only %d flags were found", len(flags))
	}
	for name := range compose(t).Services["understudy"].Environment {
		if strings.HasPrefix(name, "UNDERSTUDY_") && !flags[name] {
			t.Errorf("%s is no flag of serve", name)
		}
	}
}

func TestImageIsSmallAndUnprivileged(t *testing.T) {
	content, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := strings.Split(string(content), "\nFROM ")
	last := stages[len(stages)-1]
	for _, want := range []string{"scratch", "USER 65532", `ENTRYPOINT ["/understudy"]`, `CMD ["serve"]`} {
		if !strings.Contains(last, want) {
			t.Errorf("the image has no %s", want)
		}
	}
	if !strings.Contains(string(content), "CGO_ENABLED=0") {
		t.Error("the binary is not static")
	}
}

// TestCollectorPipelines checks that every pipeline is made of parts that are
// there; the collector's own packages are too many to ask.
func TestCollectorPipelines(t *testing.T) {
	content, err := os.ReadFile("otel-collector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Receivers  map[string]any
		Processors map[string]any
		Exporters  map[string]any
		Service    struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []string{"logs", "metrics", "traces"} {
		p, ok := config.Service.Pipelines[signal]
		if !ok {
			t.Errorf("there is no pipeline for %s", signal)
		}
		check := func(names []string, among map[string]any) {
			for _, n := range names {
				if _, ok := among[n]; !ok {
					t.Errorf("%s: %s is not there", signal, n)
				}
			}
		}
		check(p.Receivers, config.Receivers)
		check(p.Processors, config.Processors)
		check(p.Exporters, config.Exporters)
	}
}
