package check_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// custom is a custom resource whose spec is a message of Istio's.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              json.RawMessage `json:"spec"`
}

// istio is what deploy/istio declares.
type istio struct {
	mesh          *mesh.MeshConfig
	entry         *networking.ServiceEntry
	authorization *security.AuthorizationPolicy
	deployment    appsv1.Deployment
	service       corev1.Service
	// namespaces :: kind → where it is.
	namespaces map[string]string
}

// readIstio decodes the files strictly: an unknown field is an error, in what is
// Kubernetes' and in what is Istio's.
func readIstio(t *testing.T) *istio {
	t.Helper()
	files := &istio{
		mesh: &mesh.MeshConfig{}, entry: &networking.ServiceEntry{}, authorization: &security.AuthorizationPolicy{},
		namespaces: make(map[string]string),
	}
	values := documents(t, "istio/mesh.yaml")
	if len(values) != 1 || len(values[0]) != 1 {
		t.Fatalf("istio/mesh.yaml is %v; want one document with meshConfig alone", values)
	}
	decodeMessage(t, values[0]["meshConfig"], files.mesh)
	specs := map[string]proto.Message{
		"networking.istio.io/v1 ServiceEntry":      files.entry,
		"security.istio.io/v1 AuthorizationPolicy": files.authorization,
	}
	for _, document := range documents(t, "istio/authorization.yaml") {
		resource := &custom{}
		decodeStrictly(t, document, resource)
		kind := resource.APIVersion + " " + resource.Kind
		if specs[kind] == nil {
			t.Fatalf("%s is not expected, or is there twice", kind)
		}
		decodeMessage(t, document["spec"], specs[kind])
		delete(specs, kind)
		files.namespaces[resource.Kind] = resource.Namespace
	}
	workload := documents(t, "istio/sidecar.yaml")
	if len(specs) > 0 || len(workload) != 2 {
		t.Fatalf("not there: %v; sidecar.yaml has %d documents, want 2", specs, len(workload))
	}
	decodeStrictly(t, workload[0], &files.deployment)
	decodeStrictly(t, workload[1], &files.service)
	return files
}

// documents returns the documents of a YAML file.
func documents(t *testing.T, name string) (out []map[string]any) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	for {
		var document map[string]any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, document)
	}
}

func decodeMessage(t *testing.T, document any, m proto.Message) {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatalf("%s: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
}

// TestIstioProvidersLeadToTheServiceEntry: each provider asks a host and a port that
// are there, with the port's protocol.
func TestIstioProvidersLeadToTheServiceEntry(t *testing.T) {
	files := readIstio(t)
	host := files.namespaces["ServiceEntry"] + "/" + files.entry.GetHosts()[0]
	protocols := make(map[uint32]string)
	for _, p := range files.entry.GetPorts() {
		protocols[p.GetNumber()] = p.GetProtocol()
	}
	if len(files.mesh.GetExtensionProviders()) != 2 {
		t.Fatalf("there are %d providers; want 2", len(files.mesh.GetExtensionProviders()))
	}
	for _, p := range files.mesh.GetExtensionProviders() {
		grpc, http := p.GetEnvoyExtAuthzGrpc(), p.GetEnvoyExtAuthzHttp()
		if grpc != nil && (grpc.GetService() != host || grpc.GetPort() != 9191 || protocols[grpc.GetPort()] != "GRPC") {
			t.Errorf("%s asks %s at %d; want %s at 9191, which is gRPC", p.GetName(), grpc.GetService(), grpc.GetPort(), host)
		}
		if http != nil && (http.GetService() != host || protocols[http.GetPort()] != "HTTP") {
			t.Errorf("%s asks %s at %d; want %s and its HTTP port", p.GetName(), http.GetService(), http.GetPort(), host)
		}
		if grpc == nil && http == nil {
			t.Errorf("%s is no ext_authz", p.GetName())
		}
	}
	if e := files.entry.GetEndpoints(); len(e) != 1 || !net.ParseIP(e[0].GetAddress()).IsLoopback() ||
		files.entry.GetResolution() != networking.ServiceEntry_STATIC {
		t.Errorf("the endpoints are %v; want the Pod's own loopback address alone", e)
	}
}

// asked is what both flavours of a provider have in common.
type asked interface {
	GetFailOpen() bool
	GetClearRouteCache() bool
	GetStatusOnError() string
	GetIncludeRequestBodyInCheck() *mesh.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody
}

func TestIstioFailsClosedAndInTime(t *testing.T) {
	for _, p := range readIstio(t).mesh.GetExtensionProviders() {
		var settings asked = p.GetEnvoyExtAuthzGrpc()
		timeout := p.GetEnvoyExtAuthzGrpc().GetTimeout()
		if http := p.GetEnvoyExtAuthzHttp(); http != nil {
			settings, timeout = http, http.GetTimeout()
		}
		if settings.GetFailOpen() || settings.GetClearRouteCache() || settings.GetStatusOnError() != "503" {
			t.Errorf("%s: {%v}; want that nobody passes unasked, by no other route, and 503", p.GetName(), p)
		}
		if d := timeout.AsDuration().Milliseconds(); d <= 100 || d > 1000 {
			t.Errorf("%s: the timeout is %d ms; want one above --decision-timeout and not Istio's 600 s", p.GetName(), d)
		}
		body := settings.GetIncludeRequestBodyInCheck()
		if body.GetMaxRequestBytes() == 0 || !body.GetAllowPartialMessage() || p.GetEnvoyExtAuthzGrpc() != nil && !body.GetPackAsBytes() {
			t.Errorf("%s: the body is {%v}; want a limit, partial messages, and bytes", p.GetName(), body)
		}
	}
}

// TestIstioNormalizesPaths: else /public%2F..%2Finternal is one path for the policy and
// another for the app.
func TestIstioNormalizesPaths(t *testing.T) {
	want := mesh.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES
	if got := readIstio(t).mesh.GetPathNormalization().GetNormalization(); got != want {
		t.Errorf("paths are normalized as %v; want %v", got, want)
	}
}

func TestIstioAsksAboutEveryRequestOfThePods(t *testing.T) {
	files := readIstio(t)
	policy := files.authorization
	if policy.GetAction() != security.AuthorizationPolicy_CUSTOM || len(policy.GetRules()) != 1 ||
		!proto.Equal(policy.GetRules()[0], &security.Rule{}) {
		t.Errorf("the policy is {%v}; want CUSTOM with one rule that matches everything", policy)
	}
	there := false
	for _, p := range files.mesh.GetExtensionProviders() {
		there = there || p.GetName() == policy.GetProvider().GetName() && p.GetEnvoyExtAuthzGrpc() != nil
	}
	if !there {
		t.Errorf("the policy names the provider %q, which is not there or not gRPC", policy.GetProvider().GetName())
	}
	pod := labels.Set(files.deployment.Spec.Template.Labels)
	for what, selector := range map[string]map[string]string{
		"AuthorizationPolicy": policy.GetSelector().GetMatchLabels(),
		"Deployment":          files.deployment.Spec.Selector.MatchLabels,
		"Service":             files.service.Spec.Selector,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
			t.Errorf("the %s selects %v; the Pods have %v", what, selector, pod)
		}
	}
	if got, want := files.deployment.Namespace, files.namespaces["AuthorizationPolicy"]; got != want {
		t.Errorf("the Pods are in the namespace %q, the AuthorizationPolicy in %q", got, want)
	}
}

// TestIstioSidecarIsThatOfKubernetes: the configuration of Understudy is the same as in
// deploy/kubernetes, where further tests look at it.
func TestIstioSidecarIsThatOfKubernetes(t *testing.T) {
	template := readIstio(t).deployment.Spec.Template
	if template.Labels["sidecar.istio.io/inject"] != "true" {
		t.Error("no proxy is injected, so nobody would be asked")
	}
	proxy := &mesh.ProxyConfig{}
	var config any
	if err := yaml.Unmarshal([]byte(template.Annotations["proxy.istio.io/config"]), &config); err != nil {
		t.Fatal(err)
	}
	decodeMessage(t, config, proxy)
	if !proxy.GetHoldApplicationUntilProxyStarts().GetValue() {
		t.Error("Understudy may start before the proxy, without a way to its store")
	}
	want := readManifest(t).container(t, "understudy")
	got := template.Spec.Containers[0]
	if got.Name != want.Name || got.Image != want.Image {
		t.Errorf("the container is %s of %s; want %s of %s", got.Name, got.Image, want.Name, want.Image)
	}
	// But for the policies: Istio has no way to choose one by the route.
	mine, theirs := environment(got), environment(want)
	if mine["UNDERSTUDY_POLICIES"] != mine["UNDERSTUDY_POLICY"] {
		t.Errorf("the policies are %s; want the only one that decides, %s", mine["UNDERSTUDY_POLICIES"], mine["UNDERSTUDY_POLICY"])
	}
	theirs["UNDERSTUDY_POLICIES"] = mine["UNDERSTUDY_POLICIES"]
	if !maps.Equal(mine, theirs) {
		t.Errorf("the environment is\n%v\nwant\n%v", mine, theirs)
	}
	for _, c := range template.Spec.Containers {
		s := c.SecurityContext
		if s == nil || !isTrue(s.RunAsNonRoot) || !isTrue(s.ReadOnlyRootFilesystem) || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
			t.Errorf("%s: the container is not confined", c.Name)
		}
	}
	if got.ReadinessProbe == nil || !strings.HasSuffix(got.ReadinessProbe.HTTPGet.Path, "/readyz") {
		t.Error("a Pod without policies would get requests")
	}
}
