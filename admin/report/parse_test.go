package report_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/content"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// everything has each field set.
const everything = "requests>=10000,callers>=20,endpoints>=5,duration>=1h30m,newly-denied=0,newly-denied<=0.1%,newly-denied<=0.5%@95," +
	"newly-denied<=0.25%@95/requests,newly-allowed<=3,newly-allowed=0%,newly-allowed<=1%@95,newly-allowed<=100%@95/requests," +
	"response-changed<=12,response-changed<=12.5%,failed=0,failed<=100%,dropped<=7,dropped<=1%,unjudged<=2,all-nodes," +
	"scope=all-pairs"

func TestParse(t *testing.T) {
	for text, want := range map[string]*adminpb.CommitRequirements{
		"":                         {},
		"  ":                       {},
		"requests>=10000":          {MinRequestCount: 10000},
		" requests >= 10000 ":      {MinRequestCount: 10000},
		"requests>=0":              {},
		"newly-denied=0":           {MaxNewlyDeniedCount: proto.Int64(0)},
		"newly-denied<=0":          {MaxNewlyDeniedCount: proto.Int64(0)},
		"newly-denied<=5":          {MaxNewlyDeniedCount: proto.Int64(5)},
		"failed=0%":                {MaxFailedRatio: proto.Float64(0)},
		"failed=0.0%":              {MaxFailedRatio: proto.Float64(0)},
		"failed<=0.1%":             {MaxFailedRatio: proto.Float64(0.001)},
		"failed<=0.1%,failed<=9":   {MaxFailedRatio: proto.Float64(0.001), MaxFailedCount: proto.Int64(9)},
		"dropped<=100%":            {MaxDroppedRatio: proto.Float64(1)},
		"unjudged<=3":              {MaxUnjudgedCount: proto.Int64(3)},
		"all-nodes":                {RequireAllNodes: true},
		"different-committer":      {RequireDifferentCommitter: true},
		"confirmed":                {RequireConfirmation: true},
		"accepted<=100":            {MaxAcceptedCount: proto.Int64(100)},
		"scope=present-pair":       {Scope: adminpb.CommitRequirements_PRESENT_PAIR},
		"duration>=1h":             {MinDuration: durationpb.New(time.Hour)},
		"duration>=7d":             {MinDuration: durationpb.New(7 * 24 * time.Hour)},
		"duration>=1d12h":          {MinDuration: durationpb.New(36 * time.Hour)},
		"duration>=1.5s":           {MinDuration: durationpb.New(1500 * time.Millisecond)},
		"duration>=87600h":         {MinDuration: durationpb.New(content.MaxRequiredDuration)},
		"all-nodes , requests>=12": {RequireAllNodes: true, MinRequestCount: 12},
		everything: {
			MinRequestCount: 10000, MinCallerCount: 20, MinEndpointCount: 5, MinDuration: durationpb.New(90 * time.Minute),
			MaxNewlyDeniedCount: proto.Int64(0), MaxNewlyDeniedRatio: proto.Float64(0.001),
			MaxNewlyAllowedCount: proto.Int64(3), MaxNewlyAllowedRatio: proto.Float64(0),
			MaxNewlyDeniedBound: proto.Float64(0.005), MaxNewlyDeniedRequestBound: proto.Float64(0.0025),
			MaxNewlyAllowedBound: proto.Float64(0.01), MaxNewlyAllowedRequestBound: proto.Float64(1),
			MaxResponseChangedCount: proto.Int64(12), MaxResponseChangedRatio: proto.Float64(0.125),
			MaxFailedCount: proto.Int64(0), MaxFailedRatio: proto.Float64(1),
			MaxDroppedCount: proto.Int64(7), MaxDroppedRatio: proto.Float64(0.01),
			MaxUnjudgedCount: proto.Int64(2), RequireAllNodes: true, Scope: adminpb.CommitRequirements_ALL_PAIRS,
		},
	} {
		got, err := report.Parse(text)
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"newly-deny=0":                   `requirement "newly-deny=0": there is no such requirement; did you mean newly-denied? there are default, requests, callers, endpoints, duration,`,
		"request>=5":                     "did you mean requests?",
		"Requests>=5":                    "did you mean requests?",
		"principals>=5":                  "did you mean callers?",
		"callers<=5":                     "callers is a minimum: write callers>=5",
		"endpoints>=5%":                  "a count is a whole number",
		"routes>=5":                      "did you mean endpoints?",
		"denied=0":                       "did you mean newly-denied?",
		"min-request-count>=5":           "did you mean requests?",
		"all_nodes":                      "did you mean all-nodes?",
		"newly-denied<=1%@99":            "a bound is a percentage up to 100% with @95 behind it, such as 0.1%@95, or 0.1%@95/requests",
		"newly-denied<=1@95":             "a bound is a percentage",
		"newly-denied<=1%@95/callers":    "a bound is a percentage",
		"newly-denied<=101%@95":          "a bound is a percentage",
		"newly-denied<=0%@95":            "a bound is above 0%",
		"newly-allowed=0%@95/requests":   "a bound is above 0%",
		"newly-denied=1%@95":             "newly-denied is a maximum: write newly-denied<=1%@95",
		"newly-denied>=1%@95/requests":   "newly-denied is a maximum: write newly-denied<=1%@95/requests",
		"failed<=1%@95":                  "failed has no bound at 95%, as newly-denied and newly-allowed have: write it without @",
		"dropped<=1%@95/requests":        "dropped has no bound at 95%",
		"changed-rules>=100%":            "did you mean unjudged?",
		"coverage>=100%":                 "did you mean unjudged?",
		"zebra=1":                        "there is no such requirement; there are default, requests,",
		"requests<=5":                    "requests is a minimum: write requests>=5",
		"requests=5":                     "requests is a minimum: write requests>=5",
		"requests>5":                     "requests is a minimum: write requests>=5",
		"newly-denied>=5":                "newly-denied is a maximum: write newly-denied<=5",
		"newly-denied=5":                 "newly-denied is a maximum: write newly-denied<=5",
		"newly-denied=-1":                "a count is a whole number",
		"newly-denied>=NaN":              "a count is a whole number",
		"newly-denied>=101%":             "a share is at most 100%",
		"requests<=-5":                   "a count is a whole number",
		"requests>=10,000":               `requirement "000": a comma ends a requirement: write a number without one, such as 10000 or 0.1%`,
		"failed<=0,1%":                   `requirement "1%": a comma ends a requirement`,
		"failed=0.1%":                    "failed is a maximum: write failed<=0.1%",
		"requests":                       "it has no value: write it such as requests>=10000",
		"requests>=":                     "it has no value: write it such as requests>=10000",
		"requests 5":                     "it has no value: write it such as requests>=10000",
		"newly-denied=":                  "it has no value: write it such as newly-denied=0",
		"requests>=many":                 "a count is a whole number without separators, such as 10000",
		"requests>=-1":                   "a count is a whole number",
		"requests>=1_000":                "a count is a whole number",
		"requests>=5%":                   "a count is a whole number",
		"requests>=1e30":                 "a count is a whole number",
		"failed<=0.1":                    "and a share has a % behind it, such as 0.1%",
		"failed<=101%":                   "a share is at most 100%",
		"failed<=-1%":                    "a share is a percentage from 0% to 100%",
		"failed<=NaN%":                   "a share is a percentage from 0% to 100%",
		"failed<=1e-3%":                  "a share is a percentage from 0% to 100%",
		"unjudged<=80%":                  "a count is a whole number",
		"duration>=10":                   "a duration has a unit, such as 30m, 1h30m or 7d",
		"duration>=-1h":                  "a duration has a unit",
		"duration>=1h-5m":                "a duration has a unit",
		"duration>=3651d":                "the duration is too long: at most 87600h",
		"duration>=999999d":              "the duration is too long",
		"duration>=3650d1ns":             "the duration is too long",
		"duration>=9999999h":             "a duration has a unit",
		"all-nodes=true":                 "all-nodes has no value: write all-nodes alone",
		"different-committer=x":          "different-committer has no value: write different-committer alone",
		"four-eyes":                      "did you mean different-committer?",
		"scope":                          "it has no value: write it such as scope=all-pairs",
		"scope=everything":               "the scope is present-pair or all-pairs",
		"scope>=all-pairs":               "scope is chosen: write it such as scope=all-pairs",
		"requests>=5,":                   "there is nothing between two commas: leave one out",
		"requests>=5,,all-nodes":         "there is nothing between two commas",
		"requests>=5,requests>=6":        `requirement "requests>=6": requests is required twice: leave one out`,
		"failed=0,failed<=3":             "failed is required twice",
		"requests>=99999999999999999999": "the count is too large",
		strings.Repeat("x", 1<<20):       "there is no such requirement",
		"requests>=" + strings.Repeat("9", 1<<20): "the count is too large",
		"re\nquests>=5": "there is no such requirement",
	} {
		_, err := report.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("Parse(%.60q): got %.300v, want ... %s", text, err, want)
		}
	}
}

// TestFormat holds the canonical text: requirements in one order, and none for those that
// demand nothing.
func TestFormat(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		everything:               everything,
		"all-nodes,requests>=07": "requests>=7,all-nodes",
		"newly-denied<=0":        "newly-denied=0",
		"duration>=60m":          "duration>=1h",
		"duration>=90s":          "duration>=1m30s",
		"duration>=0s":           "duration>=0s",
		"duration>=10m":          "duration>=10m",
		"duration>=1d":           "duration>=24h",
		"failed<=00.10%":         "failed<=0.1%",
		"failed<=12.3450%":       "failed<=12.345%",
		"newly-denied <= 0.10%@95/requests,newly-denied<=1%@95,newly-denied<=2%": "newly-denied<=2%,newly-denied<=1%@95,newly-denied<=0.1%@95/requests",
		"failed<=0.000001%": "failed<=0.000001%",
	} {
		r, err := report.Parse(text)
		if got := report.Format(r); err != nil || got != want {
			t.Errorf("Format(Parse(%q)) = %q, %v; want %q", text, got, err, want)
		}
	}
	if got := report.Format(&adminpb.CommitRequirements{MaxFailedRatio: proto.Float64(math.Copysign(0, -1))}); got != "failed=0%" {
		t.Errorf("Format of a share of -0 = %q, want failed=0%%", got)
	}
	if got := report.Format(nil); got != "" {
		t.Errorf("Format(nil) = %q, want nothing", got)
	}
}

// FuzzParse shows that whatever parses is formatted to a text that says the same, and that
// the API takes it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", everything, "requests>=1,scope=present-pair", "failed<=0.1", "newly-denied<=0.10%@95", "newly-allowed<=5%@95/requests", "duration>=1d1h1.5s", "all-nodes=", "newly-denied=0%", ",",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := report.Parse(text)
		if err != nil {
			if r != nil {
				t.Errorf("Parse(%q) returned both %v and %v", text, r, err)
			}
			return
		}
		formatted := report.Format(r)
		again, err := report.Parse(formatted)
		if err != nil || !proto.Equal(again, r) {
			t.Errorf("Parse(%q) = %v, formatted %q, which is %v, %v", text, r, formatted, again, err)
		}
		if twice := report.Format(again); twice != formatted {
			t.Errorf("%q is formatted to %q, and that to %q", text, formatted, twice)
		}
		if err := content.CheckRequirements("requirements", r); err != nil {
			t.Errorf("Parse(%q) = %v, which the API refuses: %v", text, r, err)
		}
	})
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 9120: "9,120", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := report.Number(n); got != want {
			t.Errorf("Number(%d) = %q, want %q", n, got, want)
		}
	}
	for share, want := range map[float64]string{
		0: "0%", 1: "100%", 0.5: "50%", 0.001: "0.1%", 1.0 / 3: "33.3%", 0.00012345: "0.0123%", 1e-9: "0.0000001%", 0.99999: "100%",
	} {
		if got := report.Share(share); got != want {
			t.Errorf("Share(%v) = %q, want %q", share, got, want)
		}
	}
}
