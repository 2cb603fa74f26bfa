package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/admin/audit"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/telemetry"
)

// marker is in each body, and part of each token, of the tests of the audit log.
const marker = "MARKER"

// traceparent is sent with each call.
const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// auditing is a server whose changes are recorded, and its collector.
type auditing struct {
	*testing.T
	*running
	collector *collector
	// token is that of who calls.
	token string
	// api is rest or grpc: how changeAll calls.
	api string
}

// The tokens of the owner ann, and of bob, who may nothing.
const (
	annsToken = marker + "-ann-01234567890123456789012345678901"
	bobsToken = marker + "-bob-01234567890123456789012345678901"
)

// startAuditing starts a server that exports to a collector, which listens, and knows its callers.
func startAuditing(t *testing.T, store, mode string, more ...func(*config)) *auditing {
	t.Helper()
	c := newCollector()
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", c.listenGRPC(t))
	return startAuditingTo(t, c, store, mode, more...)
}

// startAuditingTo is startAuditing with an endpoint that is in the environment already.
func startAuditingTo(t *testing.T, c *collector, store, mode string, more ...func(*config)) *auditing {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "5")
	var lines strings.Builder
	for name, token := range map[string]string{"ann": annsToken, "bob": bobsToken} {
		digest := sha256.Sum256([]byte(token))
		fmt.Fprintf(&lines, "%s %s\n", name, hex.EncodeToString(digest[:]))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startServer(t, func(config *config) {
		if store != "" {
			config.Store = store
		}
		config.adminTokenFiles, config.owners = []string{file}, []string{"token:ann"}
		config.audit = telemetry.Audit{Mode: mode}
		for _, change := range more {
			change(config)
		}
	})
	return &auditing{T: t, running: r, collector: c, token: annsToken, api: "rest"}
}

// send makes a call of HTTP and returns its status and its answer.
func (a *auditing) send(method, path, body string) (int, map[string]any) {
	a.Helper()
	request, err := http.NewRequestWithContext(a.Context(), method, "http://"+a.bound["admin"]+path, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Traceparent", traceparent)
	code, content := answerOf(a, request)
	var answer map[string]any
	_ = json.Unmarshal([]byte(content), &answer)
	return code, answer
}

// text is that of a field of an answer.
func text(answer map[string]any, path ...string) string {
	for _, name := range path[:len(path)-1] {
		answer, _ = answer[name].(map[string]any)
	}
	s, _ := answer[path[len(path)-1]].(string)
	return s
}

// next is the next event, whose attributes it returns.
func (a *auditing) next() map[string]string {
	a.Helper()
	record := testkit.Receive(a, "an event of the audit log", a.collector.audited)
	if shown := prototext.Format(record); strings.Contains(shown, marker) {
		a.Errorf("an event has what is in a body or a token:\n%s", shown)
	}
	return attributesOf(record)
}

// attributesOf are those of a record, with its trace.
func attributesOf(record *logspb.LogRecord) map[string]string {
	out := map[string]string{"trace": hex.EncodeToString(record.GetTraceId())}
	for _, kv := range record.GetAttributes() {
		out[kv.GetKey()] = kv.GetValue().GetStringValue()
		if kv.GetValue().GetBoolValue() {
			out[kv.GetKey()] = "true"
		}
		if n := kv.GetValue().GetIntValue(); n != 0 {
			out[kv.GetKey()] = fmt.Sprint(n)
		}
		if list := kv.GetValue().GetArrayValue(); list != nil {
			out[kv.GetKey()] = listOf(list)
		}
	}
	return out
}

// listOf is a list of maps of texts: a line for each.
func listOf(list *commonpb.ArrayValue) string {
	var lines []string
	for _, element := range list.GetValues() {
		var values []string
		for _, kv := range element.GetKvlistValue().GetValues() {
			values = append(values, kv.GetKey()+"="+kv.GetValue().GetStringValue())
		}
		lines = append(lines, strings.Join(values, " "))
	}
	return strings.Join(lines, "\n")
}

// want checks attributes of an event; an empty value is one that is not there.
func (a *auditing) want(what string, got, want map[string]string) {
	a.Helper()
	for key, value := range want {
		if got[key] != value {
			a.Errorf("%s: %s is %q, want %q; the event is %v", what, key, got[key], value, got)
		}
	}
}

// none checks that no event is left, which the next one of a call shows.
func (a *auditing) none() {
	a.Helper()
	a.send("DELETE", "/v1/projects/p1/locations/l1/policies/last", "")
	a.want("the last call", a.next(), map[string]string{audit.AttributeResource: "projects/p1/locations/l1/policies/last"})
}

// stores :: name → the URL of a store; empty is a file.
func auditStores(t *testing.T) map[string]string {
	return map[string]string{"bolt": "", "redis": storetest.StartRedis(t).URL()}
}

// changing are the methods of the services that change something.
func changing() []string {
	var out []string
	for _, file := range []protoreflect.FileDescriptor{
		adminpb.File_understudy_admin_v1_admin_proto, longrunningpb.File_google_longrunning_operations_proto, iampb.File_google_iam_v1_iam_policy_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				name := string(service.Methods().Get(j).Name())
				if !slices.ContainsFunc([]string{"Get", "List", "Wait", "Download", "TestIam"}, func(p string) bool { return strings.HasPrefix(name, p) }) {
					out = append(out, string(service.FullName())+"/"+name)
				}
			}
		}
	}
	return out
}

// TestEachChangeIsRecorded makes each change once over REST and gRPC, on each store.
func TestEachChangeIsRecorded(t *testing.T) {
	for _, api := range []string{"rest", "grpc"} {
		for name, store := range auditStores(t) {
			t.Run(api+" on "+name, func(t *testing.T) {
				a := startAuditing(t, store, "required")
				a.api = api
				seen := a.changeAll()
				for _, method := range changing() {
					if !seen[method] {
						t.Errorf("%s is recorded by no step", method)
					}
				}
				a.none()
			})
		}
	}
}

// changeAll makes each change and checks its event. It returns the methods.
func (a *auditing) changeAll() map[string]bool {
	const web, e1 = policies + "/web", policies + "/web/experiments/e1"
	seen := make(map[string]bool)
	step := func(rpc, method, path, body, resource string) (event map[string]string, answer map[string]any) {
		a.Helper()
		if a.api == "grpc" {
			answer = a.mustInvoke(rpc, method, path, body)
		} else if code, content := a.send(method, path, body); code != http.StatusOK {
			a.Fatalf("%s %s answered %d: %v", method, path, code, content)
		} else {
			answer = content
		}
		event = a.next()
		seen[event[audit.AttributeMethod]] = true
		if !strings.HasSuffix(event[audit.AttributeMethod], "/"+rpc) {
			a.Errorf("the event of %s is %v", rpc, event)
		}
		a.want(rpc, event, map[string]string{
			audit.AttributePrincipal: "token:ann", audit.AttributeAuthentication: "token", audit.AttributeAPI: a.api,
			audit.AttributeOutcome: "OK", audit.AttributeReason: "", audit.AttributeResource: resource, audit.AttributeNode: "demo",
			audit.AttributeClient: "127.0.0.1", audit.AttributeValidateOnly: "", "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
		})
		if strings.Contains(text(answer, "name"), "/operations/") {
			a.want(rpc, event, map[string]string{audit.AttributeOperation: text(answer, "name")})
		}
		return event, answer
	}
	etags := func(event map[string]string, before, after string) {
		a.Helper()
		a.want(event[audit.AttributeMethod], event, map[string]string{audit.AttributeEtagBefore: before, audit.AttributeEtagAfter: after})
	}
	policy, experiment := "projects/p1/locations/l1/policies/web", "projects/p1/locations/l1/policies/web/experiments/e1"
	event, op := step("CreatePolicy", "POST", policies+"?policyId=web", `{"displayName":"`+marker+`",`+onlyGET+"}", policy)
	first, revision := text(op, "response", "etag"), text(op, "response", "revision")
	etags(event, "", first)
	event, op = step("UpdatePolicy", "PATCH", web, `{"displayName":"`+marker+`2"}`, policy)
	second := text(op, "response", "etag")
	etags(event, first, second)
	given := `{"policy":{"name":"` + policy + `","displayName":"` + marker + `",` + onlyPOST + "}}"
	event, op = step("CreatePolicyExperiment", "POST", web+"/experiments?policyExperimentId=e1", given, experiment)
	tried := text(op, "response", "etag")
	etags(event, "", tried)
	event, op = step("UpdatePolicyExperiment", "PATCH", e1, `{"displayName":"`+marker+`"}`, experiment)
	renamed := text(op, "response", "etag")
	etags(event, tried, renamed)
	event, _ = step("StartPreviewPolicyExperiment", "POST", e1+":startPreview", "{}", experiment)
	etags(event, renamed, renamed)
	etag, _ := json.Marshal(renamed)
	group, accepted := a.differing(e1), experiment+"/acceptances/a1"
	event, op = step("CreateAcceptance", "POST", e1+"/acceptances?acceptanceId=a1",
		`{"groupId":"`+group+`","experimentEtag":`+string(etag)+`,"reason":"`+marker+`"}`, accepted)
	etags(event, "", text(op, "etag"))
	a.want("CreateAcceptance", event, map[string]string{
		audit.AttributeChanges: "after=" + group + " field=group_id\nafter=2 field=max_request_count\nafter=1 field=max_caller_count",
	})
	event, _ = step("DeleteAcceptance", "DELETE", e1+"/acceptances/a1", "", accepted)
	etags(event, text(op, "etag"), "")
	step("StopPreviewPolicyExperiment", "POST", e1+":stopPreview", "{}", experiment)
	event, _ = step("CommitPolicyExperiment", "POST", e1+":commit", `{"etag":`+string(etag)+`}`, experiment)
	_, live := a.send("GET", web, "")
	etags(event, second, text(live, "etag"))
	event, _ = step("RollbackPolicy", "POST", "/v1/"+revision+":rollback", "{}", policy)
	etags(event, text(live, "etag"), first)
	_, op = step("CreatePolicyExperiment", "POST", web+"/experiments?policyExperimentId=e1", given, experiment)
	event, _ = step("DeletePolicyExperiment", "DELETE", e1, "", experiment)
	etags(event, text(op, "response", "etag"), "")
	event, op = step("UpdateConfig", "PATCH", "/v1/projects/p1/locations/l1/config", `{"nextLocation":"projects/p1/locations/l2"}`, "projects/p1/locations/l1/config")
	a.want("UpdateConfig", event, map[string]string{audit.AttributeChanges: "after=projects/p1/locations/l2 field=next_location"})
	if event[audit.AttributeEtagAfter] != text(op, "etag") || event[audit.AttributeEtagBefore] == "" {
		a.Errorf("UpdateConfig has the event %v, want the etag after %q", event, text(op, "etag"))
	}
	_, live = a.send("GET", web, "")
	_, op = step("PromotePolicies", "POST", policies+":promote",
		`{"destination":"projects/p1/locations/l2","policies":[{"revision":"`+text(live, "revision")+`"}]}`, "projects/p1/locations/l2")
	promotion := text(op, "name")
	step("CancelOperation", "POST", "/v1/"+promotion+":cancel", "{}", promotion)
	step("DeleteOperation", "DELETE", "/v1/"+promotion, "", promotion)
	event, op = step("SetIamPolicy", "POST", web+":setIamPolicy",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:zoe"]}]}}`, policy)
	a.want("SetIamPolicy", event, map[string]string{audit.AttributeBindingDeltas: "action=ADD member=token:zoe role=roles/understudy.viewer"})
	if event[audit.AttributeEtagAfter] != text(op, "etag") || event[audit.AttributeEtagBefore] == "" {
		a.Errorf("SetIamPolicy has the event %v, want the etag after %q", event, text(op, "etag"))
	}
	event, _ = step("DeletePolicy", "DELETE", web, "", policy)
	etags(event, first, first)
	step("UndeletePolicy", "POST", web+":undelete", "{}", policy)
	a.changeDataset(step)
	return seen
}

// changeDataset makes each change of a dataset. What it contains is in no event.
func (a *auditing) changeDataset(step func(rpc, method, path, body, resource string) (map[string]string, map[string]any)) {
	a.Helper()
	const users = "projects/p1/locations/l1/datasets/users"
	_, op := step("CreateDataset", "POST", "/v1/projects/p1/locations/l1/datasets?datasetId=users", `{"displayName":"`+marker+`"}`, users)
	created := text(op, "response", "etag")
	event, op := step("UploadDataset", "POST", "/v1/"+users+":upload", `{"`+marker+`":1}`, users)
	a.want("UploadDataset", event, map[string]string{audit.AttributeEtagBefore: created, audit.AttributeEtagAfter: text(op, "response", "etag")})
	step("PatchDataset", "POST", "/v1/"+users+":patch", `{"patch":[{"op":"add","path":"/`+marker+`2","value":"`+marker+`"}]}`, users)
	step("RollbackDataset", "POST", "/v1/"+users+"/versions/1:rollback", "{}", users)
	step("UpdateDataset", "PATCH", "/v1/"+users, `{"displayName":"`+marker+`2"}`, users)
	step("DeleteDataset", "DELETE", "/v1/"+users, "", users)
	step("UndeleteDataset", "POST", "/v1/"+users+":undelete", "{}", users)
}

// differing asks about a request that the experiment denies alone, and returns the ID of its group
// when the report has it.
func (a *auditing) differing(experiment string) string {
	a.Helper()
	request := question{method: "GET", path: "/x", service: "web"}.request()
	request.Attributes.ContextExtensions = map[string]string{"policy": "web"}
	if answer, err := a.authz.Check(a.Context(), request); err != nil || answer.GetStatus().GetCode() != 0 {
		a.Fatalf("the request is answered %v, %v; want that it is allowed", answer, err)
	}
	var all []any
	testkit.Await(a, "the report has a difference", func() bool {
		_, r := a.send("GET", experiment+"/report", "")
		all, _ = r["differences"].([]any)
		return len(all) > 0
	})
	return text(all[0].(map[string]any), "groupId")
}

// TestEachRefusalIsRecorded: what may not be done, what is wrong, and what nobody known asks for.
func TestEachRefusalIsRecorded(t *testing.T) {
	a := startAuditing(t, "", "best-effort")
	for _, method := range changing() {
		// An empty request names nothing.
		if err := a.invoke(annsToken, method, "{}", nil); status.Code(err).String() != "InvalidArgument" {
			t.Errorf("%s: got %v, want INVALID_ARGUMENT", method, err)
		}
		a.want(method, a.next(), map[string]string{
			audit.AttributeMethod: method, audit.AttributeAPI: "grpc", audit.AttributeOutcome: "INVALID_ARGUMENT", audit.AttributePrincipal: "token:ann",
		})
		if err := a.invoke(bobsToken, method, "{}", nil); status.Code(err).String() != "PermissionDenied" {
			t.Errorf("%s of nobody's: got %v, want PERMISSION_DENIED", method, err)
		}
		a.want(method, a.next(), map[string]string{
			audit.AttributeMethod: method, audit.AttributeOutcome: "PERMISSION_DENIED", audit.AttributeReason: "PERMISSION_DENIED",
			audit.AttributePrincipal: "token:bob",
		})
	}
	a.none()
	a = startAuditing(t, "", "best-effort") // of the same calls within a second there would be no event
	a.refusalsOverREST()
	a.none()
}

// refusalsOverREST are those that the edge makes before a method is called.
func (a *auditing) refusalsOverREST() {
	const method = "understudy.admin.v1.PolicyPreview/"
	for _, c := range []struct {
		token, method, path, body string
		status                    int
		want                      map[string]string
	}{
		{bobsToken, "POST", policies + "?policyId=x", `{"displayName":"` + marker, 403, map[string]string{
			audit.AttributeMethod: method + "CreatePolicy", audit.AttributeOutcome: "PERMISSION_DENIED", audit.AttributeResource: "projects/p1/locations/l1",
			audit.AttributeReason: "PERMISSION_DENIED",
		}},
		{annsToken, "POST", policies + "?policyId=x", `{"displayName":"` + marker, 400, map[string]string{
			audit.AttributeMethod: method + "CreatePolicy", audit.AttributeOutcome: "INVALID_ARGUMENT",
		}},
		{annsToken, "PATCH", policies + "/none", `{"displayName":"` + marker + `"}`, 404, map[string]string{
			audit.AttributeMethod: method + "UpdatePolicy", audit.AttributeOutcome: "NOT_FOUND", audit.AttributeReason: "RESOURCE_NOT_FOUND",
			audit.AttributeResource: "projects/p1/locations/l1/policies/none", audit.AttributeOperation: "",
		}},
		{annsToken, "POST", policies + "?policyId=y&validateOnly=true", `{"displayName":"` + marker + `"}`, 200, map[string]string{
			audit.AttributeMethod: method + "CreatePolicy", audit.AttributeOutcome: "OK", audit.AttributeValidateOnly: "true", audit.AttributeOperation: "",
		}},
	} {
		a.token = c.token
		if code, answer := a.send(c.method, c.path, c.body); code != c.status {
			a.Errorf("%s %s answered %d, want %d: %v", c.method, c.path, code, c.status, answer)
		}
		a.want(c.method+" "+c.path, a.next(), c.want)
	}
	a.token = marker + "-nobody's"
	for range 3 {
		if code, _ := a.send("POST", policies+"?policyId=x", "{}"); code != http.StatusUnauthorized {
			a.Errorf("a token of nobody's answered %d", code)
		}
	}
	a.want("a token of nobody's", a.next(), map[string]string{
		audit.AttributeOutcome: "UNAUTHENTICATED", audit.AttributePrincipal: "", audit.AttributeAuthentication: "none", audit.AttributeAPI: "rest",
		audit.AttributeMethod: "",
	})
	a.token = annsToken
	a.send("GET", policies, "") // reading is not recorded
}

// TestAuditConsole prints events as lines of JSON, and needs no collector.
func TestAuditConsole(t *testing.T) {
	t.Parallel()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	r := startServer(t, func(c *config) { c.audit = telemetry.Audit{Mode: "required", Console: true, Out: out} })
	r.call(t, "admin", "POST", policies+"?policyId=web", "{}")
	lines := json.NewDecoder(in)
	var line map[string]any
	if err := lines.Decode(&line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"event": audit.Event, "severity": "INFO", audit.AttributeOutcome: "OK", audit.AttributeAuthentication: "none",
		audit.AttributeResource: "projects/p1/locations/l1/policies/web",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %s, in %v", key, line[key], want, line)
		}
	}
	r.call(t, "admin", "POST", "/v1/projects/p1:setIamPolicy", bindingsOf(t, map[string][]string{"viewer": {"token:zoe"}}))
	if err := lines.Decode(&line); err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"action": "ADD", "role": "roles/understudy.viewer", "member": "token:zoe"}}
	if got := line[audit.AttributeBindingDeltas]; !reflect.DeepEqual(got, want) {
		t.Errorf("the deltas are %v, want %v", got, want)
	}
}
