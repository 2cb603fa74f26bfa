package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// composeWithAccess loads docker-compose.yml with the overlay on top, as docker compose does.
func composeWithAccess(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../docker-compose.yml", "compose/access.yaml"}, cli.WithWorkingDirectory(".."))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// variable is what a service's environment has under a name; empty if it has none.
func variable(s types.ServiceConfig, name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// TestAccessOverlay: the admin API is a service of its own, which knows who calls; the
// sidecar has none, and each has its user of Redis.
func TestAccessOverlay(t *testing.T) {
	project := composeWithAccess(t)
	checkConfined(t, project)
	known := variables(t)
	for _, name := range []string{"control", "understudy"} {
		for variable := range project.Services[name].Environment {
			if strings.HasPrefix(variable, "UNDERSTUDY_") && !known[variable] {
				t.Errorf("%s: %s is no flag of serve", name, variable)
			}
		}
	}
	control, sidecar := project.Services["control"], project.Services["understudy"]
	for _, want := range []struct {
		service         types.ServiceConfig
		variable, value string
	}{
		{control, "UNDERSTUDY_ENABLE", "admin"}, {control, "UNDERSTUDY_ALLOW_UNAUTHENTICATED_ADMIN", ""},
		{control, "UNDERSTUDY_STORE", "redis://understudy@redis:6379"},
		{control, "UNDERSTUDY_ADMIN_OWNER", "cert:operator"}, {control, "UNDERSTUDY_LOCATION", variable(sidecar, "UNDERSTUDY_LOCATION")},
		{sidecar, "UNDERSTUDY_ENABLE", "authz"}, {sidecar, "UNDERSTUDY_ADMIN_ADDR", ""}, {sidecar, "UNDERSTUDY_ALLOW_UNAUTHENTICATED_ADMIN", ""},
		{sidecar, "UNDERSTUDY_STORE", "redis://understudy-sidecar@redis:6379"},
	} {
		if got := variable(want.service, want.variable); got != want.value {
			t.Errorf("%s: %s is %q, want %q", want.service.Name, want.variable, got, want.value)
		}
	}
	for _, p := range sidecar.Ports {
		if p.Target == 8181 {
			t.Error("the sidecar publishes an admin API")
		}
	}
	if len(control.Ports) != 1 || control.Ports[0].Target != 8181 {
		t.Errorf("the control plane publishes %v, want 8181", control.Ports)
	}
	if together(project, "upstream", "control") || together(project, "envoy", "control") || !together(project, "redis", "control") {
		t.Error("the control plane is to reach Redis, and neither Envoy nor the upstream it")
	}
	if command := project.Services["redis"].Command; !slices.Contains(command, "/etc/redis/users.conf") || !slices.Contains(command, "always") {
		t.Errorf("Redis runs %q, without its users or its durability", command)
	}
}

// TestAccessOverlayMountsWhatItsScriptMakes: each file is one that secrets.sh writes, and
// what the variables name is mounted.
func TestAccessOverlayMountsWhatItsScriptMakes(t *testing.T) {
	script, err := os.ReadFile("compose/secrets.sh")
	if err != nil {
		t.Fatal(err)
	}
	project := composeWithAccess(t)
	folder, err := filepath.Abs("compose/secrets")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, name := range []string{"control", "understudy", "redis"} {
		for _, v := range project.Services[name].Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			base := filepath.Base(v.Source)
			stem, suffix, _ := strings.Cut(base, ".")
			made := strings.Contains(string(script), ">"+base) || regexp.MustCompile(`(?m)^(signed|key) `+stem).Match(script) && (suffix == "crt" || suffix == "key")
			if filepath.Dir(v.Source) != folder || !made || !v.ReadOnly {
				t.Errorf("%s: %s is not made by secrets.sh, or can be written", name, v.Source)
			}
			targets[name+":"+v.Target] = true
		}
	}
	for _, named := range []struct{ service, variable string }{
		{"control", "UNDERSTUDY_ADMIN_TLS_CERT"}, {"control", "UNDERSTUDY_ADMIN_TLS_KEY"}, {"control", "UNDERSTUDY_ADMIN_TLS_CLIENT_CA"},
		{"control", "UNDERSTUDY_STORE_PASSWORD_FILE"}, {"understudy", "UNDERSTUDY_STORE_PASSWORD_FILE"},
	} {
		if file := variable(project.Services[named.service], named.variable); !targets[named.service+":"+file] {
			t.Errorf("%s of %s names %q, which is not mounted there", named.variable, named.service, file)
		}
	}
}

// TestControlPlaneOnKubernetes decodes control.yaml into Kubernetes' own types.
func TestControlPlaneOnKubernetes(t *testing.T) {
	var deployment appsv1.Deployment
	var service corev1.Service
	var account corev1.ServiceAccount
	var disruption policyv1.PodDisruptionBudget
	readObjects(t, "kubernetes/control.yaml", map[string]any{
		"apps/v1 Deployment": &deployment, "v1 Service": &service, "v1 ServiceAccount": &account, "policy/v1 PodDisruptionBudget": &disruption,
	})
	m := &manifest{deployment: deployment, service: service, disruption: disruption}
	checkRestricted(t, m)
	pod := labels.Set(deployment.Spec.Template.Labels)
	for what, selector := range map[string]map[string]string{
		"Deployment": deployment.Spec.Selector.MatchLabels, "Service": service.Spec.Selector, "PodDisruptionBudget": disruption.Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
			t.Errorf("the %s selects %v; the Pods have %v", what, selector, pod)
		}
	}
	c := m.container(t, "understudy")
	values, known := environment(c), variables(t)
	for name := range values {
		if strings.HasPrefix(name, "UNDERSTUDY_") && !known[name] {
			t.Errorf("%s is no flag of serve", name)
		}
	}
	issuer, settings, _ := strings.Cut(values["UNDERSTUDY_ADMIN_OIDC_ISSUER"], ",")
	owner := "oidc:" + issuer + "#system:serviceaccount:default:" + account.Name
	if values["UNDERSTUDY_ENABLE"] != "admin" || values["UNDERSTUDY_ADMIN_OWNER"] != owner || !strings.Contains(settings, "audience=") {
		t.Errorf("it does not serve the admin API alone to the owner %s: %v", owner, values)
	}
	mounts := map[string]bool{}
	for _, v := range c.VolumeMounts {
		mounts[v.MountPath] = slices.ContainsFunc(deployment.Spec.Template.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == v.Name })
	}
	files := []string{values["UNDERSTUDY_ADMIN_TLS_CERT"], values["UNDERSTUDY_ADMIN_TLS_KEY"], values["UNDERSTUDY_STORE_PASSWORD_FILE"]}
	for _, setting := range []string{"ca-file=", "token-file="} {
		_, rest, _ := strings.Cut(settings, setting)
		file, _, _ := strings.Cut(rest, ",")
		files = append(files, file)
	}
	for _, file := range files {
		if !mounts[filepath.Dir(file)] {
			t.Errorf("%q is not mounted", file)
		}
	}
	if port := service.Spec.Ports[0]; len(service.Spec.Ports) != 1 || !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal && p.ContainerPort == 8181 }) {
		t.Errorf("the Service leads to %v", service.Spec.Ports)
	}
}

// environment :: variable → value, of those that stand in the file.
func environment(c corev1.Container) map[string]string {
	out := map[string]string{}
	for _, e := range c.Env {
		out[e.Name] = e.Value
	}
	return out
}
