package check_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
)

// compose loads the file as docker compose does: what is not in the specification
// is refused.
func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml"}, cli.WithWorkingDirectory(".."))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeHasAllParts(t *testing.T) {
	names := compose(t).ServiceNames()
	slices.Sort(names)
	if diff := cmp.Diff([]string{"collector", "envoy", "redis", "understudy", "upstream"}, names); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestComposeIsConfined(t *testing.T) { checkConfined(t, compose(t)) }

// checkConfined checks that no service can do more than it has to.
func checkConfined(t *testing.T, project *types.Project) {
	t.Helper()
	for name, s := range project.Services {
		if !pinned(s.Image) && s.Build == nil {
			t.Errorf("%s: the image %q is not pinned to a version", name, s.Image)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged {
			t.Errorf("%s: it may write to its root or has capabilities", name)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: it may gain privileges", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published beyond this machine", name, p.Published)
			}
		}
	}
}

// pinned reports whether an image has a tag or digest that says which version.
func pinned(image string) bool {
	if strings.Contains(image, "@sha256:") {
		return true
	}
	_, tag, found := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	return found && strings.Count(tag, ".") >= 2
}

func TestComposeFilesAreThere(t *testing.T) {
	project := compose(t)
	for name, s := range project.Services {
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			info, err := os.Stat(v.Source)
			if err != nil || info.IsDir() || !v.ReadOnly {
				t.Errorf("%s: %s is not a file that is mounted to be read: %v", name, v.Source, err)
			}
		}
	}
}

// TestComposeWaits: each service starts after what it asks, and waits for it to be
// well if that has a health check.
func TestComposeWaits(t *testing.T) {
	project := compose(t)
	for name, s := range project.Services {
		for other, d := range s.DependsOn {
			want := types.ServiceConditionStarted
			if project.Services[other].HealthCheck != nil {
				want = types.ServiceConditionHealthy
			}
			if d.Condition != want {
				t.Errorf("%s waits until %s is %s; want %s", name, other, d.Condition, want)
			}
		}
	}
	for name, asked := range map[string]string{"envoy": "understudy", "understudy": "redis"} {
		if _, ok := project.Services[name].DependsOn[asked]; !ok {
			t.Errorf("%s does not wait for %s", name, asked)
		}
	}
}

func TestComposeSetsRealFlags(t *testing.T) {
	service := compose(t).Services["understudy"]
	known := variables(t)
	for name := range service.Environment {
		if strings.HasPrefix(name, "UNDERSTUDY_") && !known[name] {
			t.Errorf("%s is no flag of serve", name)
		}
	}
	value := func(name string) string {
		if v := service.Environment[name]; v != nil {
			return *v
		}
		return ""
	}
	if value("UNDERSTUDY_ALLOW_UNAUTHENTICATED_ADMIN") != "true" {
		t.Error("serve refuses an admin address beyond loopback without --allow-unauthenticated-admin")
	}
	for _, p := range service.Ports {
		address := map[uint32]string{8181: "UNDERSTUDY_ADMIN_ADDR", 8282: "UNDERSTUDY_HEALTH_ADDR"}[p.Target]
		if _, port, err := net.SplitHostPort(value(address)); err != nil || port != p.Published {
			t.Errorf("port %s is published, but %q is %q", p.Published, address, value(address))
		}
	}
}

// TestComposeNeighboursAreThere: what Understudy is configured to call is a service on a
// network with it.
func TestComposeNeighboursAreThere(t *testing.T) {
	project := compose(t)
	understudy := project.Services["understudy"]
	for _, name := range []string{"UNDERSTUDY_STORE", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		u, err := url.Parse(*understudy.Environment[name])
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := project.Services[u.Hostname()]; !ok || !together(project, "understudy", u.Hostname()) {
			t.Errorf("%s names %s, which Understudy cannot reach", name, u.Hostname())
		}
	}
	for _, name := range []string{"understudy", "upstream"} {
		if !together(project, "envoy", name) {
			t.Errorf("Envoy cannot reach %s", name)
		}
	}
	if together(project, "upstream", "understudy") {
		t.Error("the upstream can reach the admin API, which has no authentication")
	}
}

// together reports whether two services share a network.
func together(project *types.Project, a, b string) bool {
	for network := range project.Services[a].Networks {
		if _, ok := project.Services[b].Networks[network]; ok {
			return true
		}
	}
	return false
}
