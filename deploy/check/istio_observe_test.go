package check_test

import (
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/labels"
)

// TestIstioObserverRefusesNobody: the filter asks the cluster that is added next to it,
// in the Pods that have an Understudy, and lets pass whatever comes of it. What Envoy
// makes of both, a real one shows (envoy/e2e).
func TestIstioObserverRefusesNobody(t *testing.T) {
	files := documents(t, "istio/observe.yaml")
	if len(files) != 1 || files[0]["kind"] != "EnvoyFilter" {
		t.Fatalf("observe.yaml is %v; want one EnvoyFilter", files)
	}
	resource, spec := &custom{}, &networking.EnvoyFilter{}
	decodeStrictly(t, files[0], resource)
	decodeMessage(t, files[0]["spec"], spec)
	if len(spec.GetConfigPatches()) != 2 {
		t.Fatalf("there are %d patches; want a filter and a cluster", len(spec.GetConfigPatches()))
	}
	filter, cluster := spec.GetConfigPatches()[0], spec.GetConfigPatches()[1]
	if filter.GetApplyTo() != networking.EnvoyFilter_HTTP_FILTER || cluster.GetApplyTo() != networking.EnvoyFilter_CLUSTER {
		t.Fatalf("the patches are of %v and %v", filter.GetApplyTo(), cluster.GetApplyTo())
	}
	if filter.GetPatch().GetOperation() != networking.EnvoyFilter_Patch_INSERT_FIRST {
		t.Error("the filter is not the first: what another denies would not be seen")
	}
	settings := filter.GetPatch().GetValue().AsMap()["typed_config"].(map[string]any)
	if settings["failure_mode_allow"] != true || settings["clear_route_cache"] != false ||
		settings["with_request_body"].(map[string]any)["allow_partial_message"] != true {
		t.Errorf("somebody may be refused or led elsewhere by %v", settings)
	}
	grpc := settings["grpc_service"].(map[string]any)
	if timeout, err := time.ParseDuration(grpc["timeout"].(string)); err != nil || timeout > 100*time.Millisecond {
		t.Errorf("an observer that hangs costs %v: %v", grpc["timeout"], err)
	}
	asked, name := grpc["envoy_grpc"].(map[string]any)["cluster_name"], cluster.GetPatch().GetValue().AsMap()["name"]
	if asked != name {
		t.Errorf("the filter asks %v; the cluster is %v", asked, name)
	}
	pod := labels.Set(readIstio(t).deployment.Spec.Template.Labels)
	if selector := spec.GetWorkloadSelector().GetLabels(); len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
		t.Errorf("the filter is for %v; the Pods have %v", selector, pod)
	}
}
