package admin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminpb "understudy/admin/v1"
)

// The rows that the descriptors of the API prove.
func init() {
	rows["A-2"] = func(r *row) { r.message("PolicyExperiment"); r.message("PolicyPreviewMetadata") }
	rows["A-4"] = func(r *row) { r.needField("PolicyExperiment", 2, "policy", "understudy.admin.v1.Policy") }
	rows["A-6"] = func(r *row) {
		f := r.needField("PolicyExperiment", 3, "preview_metadata", "understudy.admin.v1.PolicyPreviewMetadata")
		r.needOutputOnly(f)
	}
	rows["A-10"] = experimentCapIsDocumented
	rows["A-20"] = previewMetadataFields
	rows["A-21"] = previewStates
	rows["A-30"] = func(r *row) { r.needOperation("CreatePolicyExperiment", "PolicyExperiment", "OperationMetadata") }
	rows["A-36"] = func(r *row) { r.needOperation("UpdatePolicyExperiment", "PolicyExperiment", "OperationMetadata") }
	rows["A-39f"] = func(r *row) { r.needOperation("DeletePolicyExperiment", "PolicyExperiment", "OperationMetadata") }
	rows["A-40"] = func(r *row) { r.needVerb("StartPreview", "startPreview", "PolicyExperiment") }
	rows["A-43"] = func(r *row) { r.needVerb("StopPreview", "stopPreview", "PolicyExperiment") }
	rows["A-50"] = func(r *row) {
		r.needVerb("Commit", "commit", "google.protobuf.Empty")
		r.needField("CommitPolicyExperimentRequest", 1, "name", "")
		r.needField("CommitPolicyExperimentRequest", 2, "etag", "")
		r.needField("CommitPolicyExperimentRequest", 3, "parent_etag", "")
	}
	rows["L-1"] = operationsAreGoogles
	rows["E-7"] = reasonsStandInOneFile
}

// message returns the descriptor of a message of the API.
func (r *row) message(name string) protoreflect.MessageDescriptor {
	r.Helper()
	d := adminpb.File_understudy_admin_v1_admin_proto.Messages().ByName(protoreflect.Name(name))
	if d == nil {
		r.Fatalf("the API has no message %s", name)
	}
	return d
}

func (r *row) method(name string) protoreflect.MethodDescriptor {
	r.Helper()
	d := adminpb.File_understudy_admin_v1_admin_proto.Services().ByName("PolicyPreview").Methods().ByName(protoreflect.Name(name))
	if d == nil {
		r.Fatalf("the API has no method %s", name)
	}
	return d
}

// needField checks the number of a field and, if it is given, its message.
func (r *row) needField(
	message string, number protoreflect.FieldNumber, name protoreflect.Name, typeName protoreflect.FullName,
) protoreflect.FieldDescriptor {
	r.Helper()
	f := r.message(message).Fields().ByNumber(number)
	if f == nil || f.Name() != name {
		r.Fatalf("field %d of %s is not %s", number, message, name)
	}
	if typeName != "" && (f.Message() == nil || f.Message().FullName() != typeName) {
		r.Errorf("%s.%s is no %s", message, name, typeName)
	}
	return f
}

func (r *row) needOutputOnly(f protoreflect.FieldDescriptor) {
	r.Helper()
	behaviours, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	if !slices.Contains(behaviours, annotations.FieldBehavior_OUTPUT_ONLY) {
		r.Errorf("%s is not OUTPUT_ONLY", f.FullName())
	}
}

// needOperation checks what a long-running method declares.
func (r *row) needOperation(method, response, metadata string) {
	r.Helper()
	d := r.method(method)
	info, _ := proto.GetExtension(d.Options(), longrunningpb.E_OperationInfo).(*longrunningpb.OperationInfo)
	if d.Output().FullName() != "google.longrunning.Operation" ||
		info.GetResponseType() != response || info.GetMetadataType() != metadata {
		r.Errorf("%s returns %s with %v", method, d.Output().FullName(), info)
	}
}

// needVerb checks a custom method of experiments and its route.
func (r *row) needVerb(prefix, verb, response string) {
	r.Helper()
	name := prefix + "PolicyExperiment"
	r.needOperation(name, response, name+"Metadata")
	rule, _ := proto.GetExtension(r.method(name).Options(), annotations.E_Http).(*annotations.HttpRule)
	want := "/v1/{name=projects/*/locations/*/policies/*/experiments/*}:" + verb
	if rule.GetPost() != want || rule.GetBody() != "*" {
		r.Errorf("the route of %s is %v", name, rule)
	}
}

func previewMetadataFields(r *row) {
	for number, name := range map[protoreflect.FieldNumber]protoreflect.Name{
		1: "state", 2: "log_prefix", 3: "start_time", 4: "stop_time",
	} {
		r.needOutputOnly(r.needField("PolicyPreviewMetadata", number, name, ""))
	}
}

func previewStates(r *row) {
	values := r.message("PolicyPreviewMetadata").Enums().ByName("State").Values()
	for number, name := range []protoreflect.Name{"STATE_UNDEFINED", "ACTIVE", "SUSPENDED"} {
		if v := values.ByNumber(protoreflect.EnumNumber(number)); v == nil || v.Name() != name {
			r.Errorf("state %d is not %s", number, name)
		}
	}
	if values.Len() != 3 {
		r.Errorf("there are %d states", values.Len())
	}
}

// operationsAreGoogles checks all methods that return an operation.
func operationsAreGoogles(r *row) {
	methods := adminpb.File_understudy_admin_v1_admin_proto.Services().ByName("PolicyPreview").Methods()
	long := 0
	for i := range methods.Len() {
		d := methods.Get(i)
		info, _ := proto.GetExtension(d.Options(), longrunningpb.E_OperationInfo).(*longrunningpb.OperationInfo)
		if d.Output().FullName() != "google.longrunning.Operation" {
			continue
		}
		long++
		for _, name := range []string{info.GetResponseType(), info.GetMetadataType()} {
			if name == "google.protobuf.Empty" && name == info.GetResponseType() {
				continue
			}
			r.message(name)
		}
	}
	if long < 10 {
		r.Errorf("only %d methods are long-running", long)
	}
	if path := (&longrunningpb.Operation{}).ProtoReflect().Descriptor().ParentFile().Path(); path != "google/longrunning/operations.proto" {
		r.Errorf("Operation comes from %s", path)
	}
}

// experimentCapIsDocumented looks where users look.
func experimentCapIsDocumented(r *row) {
	for file, form := range map[string]string{
		"v1/admin.proto": `A policy has at most 10 experiments`,
		"README.md":      `(?i)at most (10|ten) experiments`,
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			r.Fatal(err)
		}
		if !regexp.MustCompile(form).Match(content) {
			r.Errorf("%s does not say %s", file, form)
		}
	}
}

var reasonText = regexp.MustCompile(`(?m)^\s*(Reason\w+)\s+Reason\s*=\s*"([A-Z0-9_]+)"`)

// reasonsStandInOneFile reads the source: every reason is a constant of apierror, and no
// two have the same text.
func reasonsStandInOneFile(r *row) {
	own, err := filepath.Glob("*.go")
	if err != nil {
		r.Fatal(err)
	}
	below, err := filepath.Glob("*/*.go")
	if err != nil {
		r.Fatal(err)
	}
	files := append(own, below...)
	owners := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			r.Fatal(err)
		}
		found := reasonText.FindAllStringSubmatch(string(content), -1)
		if len(found) > 0 && file != filepath.Join("apierror", "reason.go") {
			r.Errorf("%s defines reasons", file)
		}
		for _, m := range found {
			if other := owners[m[2]]; other != "" {
				r.Errorf("%s and %s are both %s", m[1], other, m[2])
			}
			owners[m[2]] = m[1]
		}
	}
	if len(owners) < 20 {
		r.Errorf("only %d reasons were found", len(owners))
	}
}
