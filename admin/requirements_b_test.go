package admin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

// The rows of AIP-128 and the AIPs behind it that a script would say badly.
func init() {
	rows["B-1"] = planesAreApart
	rows["B-2"] = changesAreSeenAtOnce
	rows["B-3"] = func(r *row) { r.needStyle("Policy"); r.needStyle("PolicyExperiment") }
	rows["B-4"] = func(r *row) { r.needAnnotations("Policy", 8); r.needAnnotations("PolicyExperiment", 4) }
	rows["B-6"] = func(r *row) { r.beat(r.newPeer("starting")) }
	rows["B-11"] = customMethodsAreImperative
	rows["B-13"] = standardFieldsAreOutputOnly
	rows["B-20"] = collectionsArePlural
	rows["B-23"] = everyMethodHasARoute
	rows["B-54"] = func(r *row) { r.needNoField("DeletePolicyRequest", "force") }
	rows["B-62"] = func(r *row) { r.needDocumented("team.example.com/owner") }
	rows["B-69"] = func(r *row) { r.needDocumented("`If-Match` is not part of the API") }
	rows["B-70"] = everyMutationValidates
	rows["B-74"] = func(r *row) { r.needNoField("CommitPolicyExperimentRequest", "request_id") }
	rows["B-85"] = pageSizes
	rows["B-87"] = tamperedTokens
	rows["B-96"] = brokenFilters
	rows["B-104"] = linterRules
}

func (r *row) methods() []protoreflect.MethodDescriptor {
	all := adminpb.File_understudy_admin_v1_admin_proto.Services().ByName("PolicyPreview").Methods()
	var out []protoreflect.MethodDescriptor
	for i := range all.Len() {
		out = append(out, all.Get(i))
	}
	return out
}

func routeOf(m protoreflect.MethodDescriptor) *annotations.HttpRule {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	return rule
}

// planesAreApart checks that no service of the control plane decides requests.
func planesAreApart(r *row) {
	services := adminpb.File_understudy_admin_v1_admin_proto.Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			if name := services.Get(i).Methods().Get(j).Name(); strings.Contains(string(name), "Check") {
				r.Errorf("%s belongs to the data plane", name)
			}
		}
	}
}

// changesAreSeenAtOnce changes a policy on one server and reads it on another.
func changesAreSeenAtOnce(r *row) {
	for i := range testkit.Cases(200) {
		name := "n" + strconv.Itoa(i)
		r.via = "s1"
		body := `{"displayName":"` + name + `"}`
		if a := r.send("PATCH", r.path("$POL"), &body); a.status != http.StatusOK {
			r.Fatalf("the change is answered with %d", a.status)
		}
		r.via = "s2"
		r.do("GET $POL\nis .displayName " + name + "\nGET $L/policies\nis .policies[0].displayName " + name)
	}
}

func (r *row) needStyle(message string) {
	r.Helper()
	d, _ := proto.GetExtension(r.message(message).Options(), annotations.E_Resource).(*annotations.ResourceDescriptor)
	if !slices.Contains(d.GetStyle(), annotations.ResourceDescriptor_DECLARATIVE_FRIENDLY) {
		r.Errorf("%s is not declarative-friendly", message)
	}
}

func (r *row) needAnnotations(message string, number protoreflect.FieldNumber) {
	r.Helper()
	f := r.needField(message, number, "annotations", "")
	if !f.IsMap() || f.MapKey().Kind() != protoreflect.StringKind || f.MapValue().Kind() != protoreflect.StringKind {
		r.Errorf("%s is no map of texts", f.FullName())
	}
}

func (r *row) needNoField(message string, name protoreflect.Name) {
	r.Helper()
	if r.message(message).Fields().ByName(name) != nil {
		r.Errorf("%s has a field %s", message, name)
	}
}

func (r *row) needDocumented(text string) {
	r.Helper()
	content, err := os.ReadFile("README.md")
	if err != nil {
		r.Fatal(err)
	}
	if !strings.Contains(string(content), text) {
		r.Errorf("the README does not say %q", text)
	}
}

// customMethodsAreImperative holds the API to its list of verbs; the source marks
// each as imperative.
func customMethodsAreImperative(r *row) {
	source, err := os.ReadFile("v1/admin.proto")
	if err != nil {
		r.Fatal(err)
	}
	var verbs []string
	for _, m := range r.methods() {
		_, verb, custom := strings.Cut(routeOf(m).GetPost(), ":")
		if !custom {
			continue
		}
		verbs = append(verbs, verb)
		before, _, _ := strings.Cut(string(source), "rpc "+string(m.Name())+"(")
		if comment := before[strings.LastIndex(before, "}")+1:]; !strings.Contains(comment, "Imperative only.") {
			r.Errorf("%s is not marked as imperative", m.Name())
		}
	}
	slices.Sort(verbs)
	if got := strings.Join(verbs, " "); got != "commit promote rollback startPreview stopPreview undelete" {
		r.Errorf("the custom methods are %s", got)
	}
}

func standardFieldsAreOutputOnly(r *row) {
	for message, numbers := range map[string]map[protoreflect.FieldNumber]protoreflect.Name{
		"Policy":           {2: "uid", 12: "create_time", 13: "update_time", 14: "delete_time", 15: "purge_time"},
		"PolicyExperiment": {6: "uid", 9: "create_time", 10: "update_time"},
	} {
		for number, name := range numbers {
			r.needOutputOnly(r.needField(message, number, name, ""))
		}
	}
}

// resources returns the resource descriptors of the API.
func (r *row) resources() map[string]*annotations.ResourceDescriptor {
	out := make(map[string]*annotations.ResourceDescriptor)
	messages := adminpb.File_understudy_admin_v1_admin_proto.Messages()
	for i := range messages.Len() {
		m := messages.Get(i)
		if proto.HasExtension(m.Options(), annotations.E_Resource) {
			out[string(m.Name())], _ = proto.GetExtension(m.Options(), annotations.E_Resource).(*annotations.ResourceDescriptor)
		}
	}
	return out
}

// collectionsArePlural checks the patterns of all names but the singletons' ends.
func collectionsArePlural(r *row) {
	for name, d := range r.resources() {
		segments := strings.Split(d.Pattern[0], "/")
		seen := make(map[string]bool)
		for i := 0; i+1 < len(segments); i += 2 {
			collection := segments[i]
			if !strings.HasSuffix(collection, "s") || strings.ContainsAny(collection, "_-") || seen[collection] {
				r.Errorf("%s: the collection %q is not plural, not camelCase or not unique", name, collection)
			}
			seen[collection] = true
		}
	}
}

func everyMethodHasARoute(r *row) {
	for _, m := range r.methods() {
		rule := routeOf(m)
		if rule.GetPattern() == nil || rule.GetPut() != "" || rule.GetCustom() != nil {
			r.Errorf("the route of %s is %v", m.Name(), rule)
		}
	}
}

func everyMutationValidates(r *row) {
	for _, m := range r.methods() {
		read := strings.HasPrefix(string(m.Name()), "Get") || strings.HasPrefix(string(m.Name()), "List")
		if f := m.Input().Fields().ByName("validate_only"); (f == nil) != read {
			r.Errorf("%s: validate_only is %v", m.Name(), f)
		}
	}
}

// pageSizes lists more policies than a page may have.
func pageSizes(r *row) {
	const most = 1000
	txn := admin.Txn{ID: "many", Project: r.store.project}
	for i := range most + 1 {
		p := &adminpb.Policy{Name: r.path("$l") + "/policies/many-" + strconv.Itoa(i)}
		value, err := proto.Marshal(p)
		if err != nil {
			r.Fatal(err)
		}
		txn.Writes = append(txn.Writes, admin.Put{Key: admin.Key(p.Name), Value: value})
	}
	if _, err := r.store.Commit(r.Context(), txn); err != nil {
		r.Fatal(err)
	}
	for query, want := range map[string]string{"": "50", "?pageSize=0": "50", "?pageSize=5000": strconv.Itoa(most), "?pageSize=70": "70"} {
		r.do("GET $L/policies" + query + "\ncount .policies " + want + "\nhas .nextPageToken")
	}
}

// tamperedTokens changes each byte of a token, one after the other.
func tamperedTokens(r *row) {
	document, _ := r.document.(map[string]any)
	token, _ := document["nextPageToken"].(string)
	for i := range len(token) {
		changed := []byte(token)
		if changed[i]++; changed[i] == token[i] || !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", rune(changed[i])) {
			changed[i] = 'A'
			if token[i] == 'A' {
				changed[i] = 'B'
			}
		}
		if a := r.send("GET", r.path("$L/policies?pageSize=1&pageToken=")+string(changed), nil); a.status != http.StatusBadRequest {
			r.Errorf("with byte %d changed the token is answered with %d", i, a.status)
		}
	}
	r.do("GET $L/policies?pageSize=1\nT = .nextPageToken\nGET $L/policies?pageSize=1&pageToken=$T\nabsent .nextPageToken")
}

func brokenFilters(r *row) {
	for _, filter := range []string{
		`nope = 1`, `display_name =`, `= x`, `create_time > "x"`, `create_time > 7`, `reconciling = maybe`, `rules = x`,
		`rules.rule_id = x`, `annotations = x`, `name.x = y`, `(name = x`, `name = x)`, `name = "x`, `AND`, `name = x AND`, `NOT`,
		`name ! x`, `data = x`, "annotations.`x = y", strings.Repeat("(", 100) + "name = x" + strings.Repeat(")", 100),
		`name = "` + strings.Repeat("x", 10_000) + `"`,
	} {
		a := r.send("GET", r.path("$L/policies?filter=")+url.QueryEscape(filter), nil)
		text, _ := json.Marshal(a.decoded)
		if a.status != http.StatusBadRequest || !strings.Contains(string(text), "INVALID_FILTER") {
			r.Errorf("the filter %.60q is answered with %d %.200s", filter, a.status, text)
		}
	}
}

// linterRules are those of Google's API linter that descriptors show: resources
// have a type, a pattern, singular and plural; fields say how they behave;
// requests refer to resources.
func linterRules(r *row) {
	for name, d := range r.resources() {
		if d.GetType() == "" || len(d.GetPattern()) == 0 || d.GetSingular() == "" || d.GetPlural() == "" {
			r.Errorf("the resource %s is %v", name, d)
		}
		if f := r.needField(name, 1, "name", ""); !hasBehavior(f) {
			r.Errorf("%s has no behaviour", f.FullName())
		}
	}
	messages := adminpb.File_understudy_admin_v1_admin_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			f := fields.Get(j)
			response := strings.HasSuffix(string(messages.Get(i).Name()), "Response")
			resource := r.resources()[string(messages.Get(i).Name())] != nil
			if exempt := response || resource && f.Name() == "etag" || f.ContainingOneof() != nil; !exempt && !hasBehavior(f) {
				r.Errorf("%s has no behaviour", f.FullName())
			}
		}
	}
}

func hasBehavior(f protoreflect.FieldDescriptor) bool {
	behaviours, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return len(behaviours) > 0
}
