package aip_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

var experiments = aip.Schema{
	Message: (&adminpb.PolicyExperiment{}).ProtoReflect().Descriptor(), Search: []string{"name", "display_name"},
}

// subject is what the filters of the table are matched against.
func subject() *adminpb.PolicyExperiment {
	return &adminpb.PolicyExperiment{
		Name: "projects/p/locations/l/policies/web/experiments/e1", DisplayName: "First try",
		Annotations: map[string]string{"team": "payments", "example.com/k": "v"},
		CreateTime:  timestamppb.New(timestamppb.Now().AsTime()),
		Policy:      &adminpb.Policy{ExemptedProjects: []string{"p1", "p2"}, Reconciling: true},
		PreviewMetadata: &adminpb.PolicyPreviewMetadata{
			State: adminpb.PolicyPreviewMetadata_ACTIVE, StartTime: &timestamppb.Timestamp{Seconds: 1_700_000_000},
		},
	}
}

// filterMatches :: filter → whether it matches the experiment of subject. A field that is
// not there makes a comparison unknown, and NOT of that is unknown too (AIP-160).
var filterMatches = map[string]bool{
	``:                                                     true,
	`display_name = "First try"`:                           true,
	`displayName = 'First try'`:                            true,
	`display_name = "first try"`:                           false,
	`display_name != "x"`:                                  true,
	`display_name = "First*"`:                              true,
	`display_name = "*try"`:                                true,
	`display_name = "*rst t*"`:                             true,
	`display_name = "*nothing*"`:                           false,
	`display_name != "*try"`:                               false,
	`display_name > "A" display_name < "Z"`:                true,
	`first`:                                                true,
	`"FIRST TRY"`:                                          true,
	`nowhere`:                                              false,
	`NOT nowhere`:                                          true,
	`-nowhere`:                                             true,
	`annotations:team`:                                     true,
	`annotations:nobody`:                                   false,
	`annotations.team = payments`:                          true,
	`annotations.team:payments`:                            true,
	`annotations.team != payments`:                         false,
	`annotations.nobody != payments`:                       false,
	`NOT annotations.nobody = payments`:                    false,
	"annotations.`example.com/k` = v":                      true,
	"annotations:`example.com/k`":                          true,
	`annotations:*`:                                        true,
	`policy.exempted_projects:p2`:                          true,
	`policy.exempted_projects:p3`:                          false,
	`policy.exempted_projects:*`:                           true,
	`policy.reconciling = true`:                            true,
	`policy.reconciling != true`:                           false,
	`preview_metadata:*`:                                   true,
	`preview_metadata.state = ACTIVE`:                      true,
	`previewMetadata.state=ACTIVE`:                         true,
	`preview_metadata.state != SUSPENDED`:                  true,
	`preview_metadata.start_time = "2023-11-14T22:13:20Z"`: true,
	`preview_metadata.start_time > "2023-11-14T22:13:19.5Z"`:               true,
	`preview_metadata.stop_time > "2000-01-01T00:00:00Z"`:                  false,
	`NOT preview_metadata.stop_time > "2000-01-01T00:00:00Z"`:              false,
	`preview_metadata.stop_time:*`:                                         false,
	`NOT preview_metadata.stop_time:*`:                                     true,
	`nowhere AND first OR e1`:                                              false,
	`first (e1)`:                                                           true,
	`NOT(nowhere) AND(first)OR(e1)`:                                        true,
	`(nowhere AND first) OR e1`:                                            true,
	`first AND nowhere OR e1`:                                              true,
	`preview_metadata.stop_time > "2000-01-01T00:00:00Z" OR first`:         true,
	`preview_metadata.stop_time > "2000-01-01T00:00:00Z" AND first`:        false,
	`NOT (preview_metadata.stop_time > "2000-01-01T00:00:00Z" OR nowhere)`: false,
}

func TestFilterMatches(t *testing.T) {
	for filter, want := range filterMatches {
		f, err := aip.ParseFilter(filter, experiments)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if got := f.Match(subject()); got != want {
			t.Errorf("%s: got %v, want %v", filter, got, want)
		}
	}
}

func TestFilterErrorsTeach(t *testing.T) {
	for filter, says := range map[string]string{
		`nope = 1`:                        `"nope"`,
		`policy.nope = 1`:                 `"policy.nope"`,
		`display_name =`:                  "ends",
		`display_name = )`:                `")"`,
		`(display_name = x`:               "not closed",
		`display_name = "x`:               "not closed",
		`preview_metadata.state = active`: "STATE_UNDEFINED, ACTIVE, SUSPENDED",
		`preview_metadata.state > ACTIVE`: "= or !=",
		`policy.reconciling < true`:       "= or !=",
		`policy.reconciling = maybe`:      "true or false",
		`create_time > 2020`:              "2026-01-31T00:00:00Z",
		`preview_metadata = x`:            "cannot be compared",
		`annotations = x`:                 "has a key",
		`policy.exempted_projects = p`:    "repeated",
		`name.x = y`:                      "no fields of its own",
		strings.Repeat("(", 60):           "deep",
		strings.Repeat("a", 10_000):       "limit",
		"display_name = \xff":             "UTF-8",
		`exists(display_name)`:            `the function "exists"`,
		`math.mem(display_name, "x")`:     `the function "math.mem"`,
		`first regex(name, "x")`:          `the function "regex"`,
		`create_time > now()`:             `the function "now"`,
		`NOT first(second)`:               `the function "first"`,
	} {
		if _, err := aip.ParseFilter(filter, experiments); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: got %v; want a text with %q", filter, err, says)
		}
	}
}

// FuzzFilter parses and matches anything: no panic.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{`a = b`, `NOT (x OR -y) z`, "annotations.`k`:v", `create_time >= "2020-01-01T00:00:00Z"`, `'"`, `a.b.c:*`, `f(a, "b") OR g (c)`} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		filter, err := aip.ParseFilter(text, experiments)
		if err != nil {
			return
		}
		filter.Match(subject())
		filter.Match(&adminpb.PolicyExperiment{})
	})
}
