package check_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubejson "sigs.k8s.io/json"
)

// manifest is what deploy/kubernetes/sidecar.yaml declares.
type manifest struct {
	deployment appsv1.Deployment
	service    corev1.Service
	disruption policyv1.PodDisruptionBudget
}

// readManifest decodes the file into Kubernetes' own types, as strictly as the API
// server does on request: unknown and repeated fields are refused.
func readManifest(t *testing.T) *manifest {
	t.Helper()
	m := &manifest{}
	readObjects(t, "kubernetes/sidecar.yaml", map[string]any{
		"apps/v1 Deployment":            &m.deployment,
		"v1 Service":                    &m.service,
		"policy/v1 PodDisruptionBudget": &m.disruption,
	})
	return m
}

// readObjects decodes a file into objects, one of each kind. It is as strict as
// readManifest says.
func readObjects(t *testing.T, name string, objects map[string]any) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	for {
		var document map[string]any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kind := document["apiVersion"].(string) + " " + document["kind"].(string)
		object, ok := objects[kind]
		if !ok {
			t.Fatalf("%s is not expected, or is there twice", kind)
		}
		delete(objects, kind)
		decodeStrictly(t, document, object)
	}
	for kind := range objects {
		t.Errorf("there is no %s", kind)
	}
}

func decodeStrictly(t *testing.T, document map[string]any, object any) {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := kubejson.UnmarshalStrict(text, object)
	if err := errors.Join(append(refused, err)...); err != nil {
		t.Fatalf("%T: %v", object, err)
	}
}

// containers are all that run in the Pod, sidecars first.
func (m *manifest) containers() []corev1.Container {
	pod := m.deployment.Spec.Template.Spec
	return slices.Concat(pod.InitContainers, pod.Containers)
}

func (m *manifest) container(t *testing.T, name string) corev1.Container {
	t.Helper()
	all := m.containers()
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no container %s", name)
	}
	return all[i]
}

func TestPodSelectorsMatch(t *testing.T) {
	m := readManifest(t)
	pod := labels.Set(m.deployment.Spec.Template.Labels)
	for what, selector := range map[string]map[string]string{
		"Deployment":          m.deployment.Spec.Selector.MatchLabels,
		"Service":             m.service.Spec.Selector,
		"PodDisruptionBudget": m.disruption.Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
			t.Errorf("the %s selects %v; the Pods have %v", what, selector, pod)
		}
	}
}

// TestPodIsRestricted follows the Restricted profile of the Pod Security Standards.
func TestPodIsRestricted(t *testing.T) { checkRestricted(t, readManifest(t)) }

// checkRestricted checks the Pod of a manifest.
func checkRestricted(t *testing.T, m *manifest) {
	t.Helper()
	pod := m.deployment.Spec.Template.Spec
	if s := pod.SecurityContext; s == nil || !isTrue(s.RunAsNonRoot) || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Error("the Pod may run as root or has no seccomp profile")
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the Pod gets a token for the API server, which it does not need")
	}
	for _, c := range m.containers() {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !isTrue(s.ReadOnlyRootFilesystem) ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: the container is not confined", c.Name)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: the container has no requests, or no limit of memory", c.Name)
		}
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

func TestPodImagesAreThoseOfCompose(t *testing.T) {
	m, services := readManifest(t), compose(t).Services
	for container, service := range map[string]string{"understudy": "understudy", "envoy": "envoy", "app": "upstream"} {
		if got, want := m.container(t, container).Image, services[service].Image; got != want {
			t.Errorf("%s: the image is %q; docker-compose.yml has %q", container, got, want)
		}
	}
}

func TestPodMountsAndPortsAreThere(t *testing.T) {
	m := readManifest(t)
	volumes := make(map[string]bool)
	for _, v := range m.deployment.Spec.Template.Spec.Volumes {
		volumes[v.Name] = true
	}
	ports := make(map[string]bool)
	for _, c := range m.containers() {
		for _, v := range c.VolumeMounts {
			if !volumes[v.Name] {
				t.Errorf("%s: there is no volume %s", c.Name, v.Name)
			}
		}
		own := make(map[string]bool)
		for _, p := range c.Ports {
			own[p.Name], ports[p.Name] = true, true
		}
		for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if p != nil && !own[p.HTTPGet.Port.StrVal] {
				t.Errorf("%s: a probe asks the port %v, which is not there", c.Name, p.HTTPGet.Port)
			}
		}
	}
	for _, p := range m.service.Spec.Ports {
		if p.TargetPort.StrVal != "http" || !ports["http"] {
			t.Errorf("the Service leads to the port %v; want http, which is Envoy's", p.TargetPort)
		}
	}
}

func TestUnderstudyIsASidecar(t *testing.T) {
	m := readManifest(t)
	c := m.container(t, "understudy")
	if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("it does not run beside the other containers")
	}
	if c.StartupProbe == nil || c.StartupProbe.HTTPGet.Path != "/readyz" ||
		c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" ||
		c.LivenessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/healthz" {
		t.Error("the probes are not /readyz, /readyz and /healthz")
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("a probe asks the port %v, want health", probe.HTTPGet.Port)
		}
	}
	aliases := m.deployment.Spec.Template.Spec.HostAliases
	if len(aliases) != 1 || aliases[0].IP != "127.0.0.1" || !slices.Equal(aliases[0].Hostnames, []string{"understudy", "upstream"}) {
		t.Errorf("envoy.yaml names understudy and upstream; the Pod's names are %v", aliases)
	}
}

// TestKubernetesSidecarHasThePoliciesOfTheRoutes: a request that names another one is denied.
func TestKubernetesSidecarHasThePoliciesOfTheRoutes(t *testing.T) {
	envoy, err := os.ReadFile("../envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := environment(readManifest(t).container(t, "understudy"))
	want := []string{env["UNDERSTUDY_POLICY"]}
	for _, m := range regexp.MustCompile(`context_extensions: \{ policy: (\w+) \}`).FindAllStringSubmatch(string(envoy), -1) {
		want = append(want, m[1])
	}
	if got := env["UNDERSTUDY_POLICIES"]; got != strings.Join(want, ",") || len(want) < 2 {
		t.Errorf("the policies are %s, those of the routes %s", got, strings.Join(want, ","))
	}
}
