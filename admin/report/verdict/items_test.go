package verdict_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// plain and quote write the parts of a phrase.
func plain(text string) string { return text }
func quote(text string) string { return "`" + text + "`" }

// TestWhat: an item says what differs, so that people can tell the two sides apart.
func TestWhat(t *testing.T) {
	rule := func(text string) *adminpb.Report_Item {
		return &adminpb.Report_Item{Kind: adminpb.Report_Item_RULE, Side: adminpb.Report_Item_EXPERIMENT, File: "auth.rego", Line: 9, Rule: "data.envoy.authz.allow", ExperimentText: text}
	}
	literal := func(live, candidate string) *adminpb.Report_Item {
		return &adminpb.Report_Item{Kind: adminpb.Report_Item_LITERAL, Side: adminpb.Report_Item_BOTH, File: "a.rego", Line: 1, PolicyText: live, ExperimentText: candidate}
	}
	for _, c := range []struct {
		item *adminpb.Report_Item
		want string
	}{
		{rule(`allow if http.headers.backdoor == "1"`), "rule `allow if http.headers.backdoor == \"1\"` (auth.rego:9), added"},
		{rule("allow if {"), "rule `allow if { …` (auth.rego:9), added"},
		{rule(""), "rule `data.envoy.authz.allow` (auth.rego:9), added"},
		{literal(`"bern"`, `"zürich"`), "`\"bern\"` became `\"zürich\"` (a.rego:1)"},
		{literal(`"naive"`, `"naïve"`), "`\"naive\"` became `\"naïve\"` (a.rego:1)"},
		{literal("\"caf\u00e9/x\"", "\"cafe\u0301/x\""), "`\"caf\\u00e9/x\"` became `\"cafe\\u0301/x\"` (a.rego:1)"},
		{literal(`"admin"`, "\"\u0430dmin\""), "`\"admin\"` became `\"\\u0430dmin\"` (a.rego:1)"},
		{literal(`"admin"`, "\"ad\u200bmin\""), "`\"admin\"` became `\"ad\\u200bmin\"` (a.rego:1)"},
		{literal(`"a b"`, `"a  b"`), "`\"a b\"` became `\"a \\u0020b\"` (a.rego:1)"},
		{literal(`"a b"`, "\"a\u00a0b\""), "`\"a\\u0020b\"` became `\"a\\u00a0b\"` (a.rego:1)"},
		{literal("\"\u00c5\"", "\"\u212b\""), "`\"\\u00c5\"` became `\"\\u212b\"` (a.rego:1)"},
	} {
		if got := verdict.What(c.item).Write(plain, quote); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestNothingKnown: of items that were not seen nothing is known only where nothing is decided otherwise.
func TestNothingKnown(t *testing.T) {
	r := &adminpb.Report{RequestCount: 40, UnchangedCount: 40, ItemCount: 2, SeenItemCount: 0, UnjudgedItemCount: proto.Int64(2)}
	if got := verdict.NothingKnown(r); got != ": nothing is known of them" {
		t.Errorf("without a difference: got %q", got)
	}
	r.UnchangedCount, r.NewlyAllowedCount = 39, 1
	if got := verdict.NothingKnown(r); got != "" {
		t.Errorf("one request is newly allowed, maybe by one of them: got %q", got)
	}
}

// TestSeen: first comes what the fewest requests have shown.
func TestSeen(t *testing.T) {
	seen := func(id string, kind adminpb.Report_Item_ItemKind, items, yes, no int64) *adminpb.Report_Item {
		return &adminpb.Report_Item{ItemId: id, Kind: kind, State: adminpb.Report_Item_SEEN, ItemCount: items, SeenCount: items, RequestCount: yes, FalseRequestCount: no}
	}
	r := &adminpb.Report{Items: []*adminpb.Report_Item{
		seen("table", adminpb.Report_Item_DATA, 9, 0, 0), seen("often", adminpb.Report_Item_RULE, 1, 30, 0),
		seen("once false", adminpb.Report_Item_CONDITION, 1, 99, 1), seen("twice", adminpb.Report_Item_RULE, 1, 2, 0),
		{ItemId: "not", State: adminpb.Report_Item_UNSEEN, ItemCount: 1},
	}}
	var ids []string
	for _, item := range verdict.Seen(r) {
		ids = append(ids, item.ItemId)
	}
	if got, want := strings.Join(ids, ", "), "once false, twice, often, table"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
