package main

// row is a heading with the charts below it.
type row struct {
	title  string
	charts []chart
}

// chart is a panel.
type chart struct {
	title string
	// about is the description that Grafana shows on demand: what to see in the chart.
	about string
	// unit is one of Grafana's: reqps, s, percentunit, short, bytes.
	unit string
	kind kind
	// queries are of PromQL.
	queries []query
	// drawn is how the drawing has it.
	drawn example
}

// example is what a drawing has in place of measurements.
type example struct {
	// most is the label of the upper end of the axis.
	most string
	// quiet says that all values are zero, as they are most of the time.
	quiet bool
}

// kind is how a chart is drawn.
type kind int

const (
	lines kind = iota
	stacked
	table
)

// query is an expression, and how its series are named.
type query struct {
	expr, legend string
	// examples are names of series for the drawing.
	examples []string
}

// The labels by which every query selects, and those of metrics that have a policy. The braces are the query's.
const (
	chosen = `job=~"$job", instance=~"$instance"`
	policy = chosen + `, policy=~"$policy"`
)

// The numbers behind two charts, as alerts.yaml has them.
const (
	newlyDenied = `sum by (experiment) (increase(understudy_preview_comparisons_total{` + policy + `, difference="NEWLY_DENIED"}[1h]))
/ (sum by (experiment) (increase(understudy_preview_comparisons_total{` + policy + `, policy_result="ALLOW"}[1h])) > 0)`
	newlyAllowed = `sum by (experiment) (increase(understudy_preview_comparisons_total{` + policy + `, difference="NEWLY_ALLOWED"}[1h]))
/ (sum by (experiment) (increase(understudy_preview_comparisons_total{` + policy + `, policy_result!="ALLOW", difference!="LIVE_FAILED"}[1h])) > 0)`
)

// rows are the dashboard, from above to below.
var rows = []row{
	{"Traffic", []chart{
		{"Checks, by result", "ERROR is a check without a decision: it is denied.", "reqps", stacked, []query{
			{`sum by (result) (rate(understudy_checks_total{` + policy + `}[$__rate_interval]))`, "{{result}}", []string{"ALLOW", "DENY", "ERROR"}},
		}, example{most: "300 req/s"}},
		{"Time to a decision", "From the request to the answer, inside of the sidecar.", "s", lines, []query{
			{`histogram_quantile(0.99, sum by (le) (rate(understudy_check_duration_seconds_bucket{` + policy + `}[$__rate_interval])))`, "99 of 100 checks", []string{"99 of 100 checks"}},
			{`histogram_quantile(0.5, sum by (le) (rate(understudy_check_duration_seconds_bucket{` + policy + `}[$__rate_interval])))`, "half of the checks", []string{"half of the checks"}},
		}, example{most: "2 ms"}},
		{"Share of checks that failed", "metrics.md says what each failure means.", "percentunit", lines, []query{
			{`sum by (failure) (rate(understudy_checks_total{` + policy + `, failure!~"|CANCELLED"}[$__rate_interval]))
/ on () group_left () sum(rate(understudy_checks_total{` + policy + `}[$__rate_interval]))`, "{{failure}}", []string{"DEADLINE_EXCEEDED", "OVERLOADED"}},
		}, example{most: "1 %", quiet: true}},
		{"How decisions are made", "hit: from the decision cache. miss and not_cached: evaluated.", "reqps", stacked, []query{
			{`sum by (way) (rate(understudy_decisions_total{` + policy + `}[$__rate_interval]))`, "{{way}}", []string{"hit", "miss"}},
		}, example{most: "300 req/s"}},
	}},
	{"Policies", []chart{
		{"Last change applied, by sidecar", "Sidecars of one location that follow the store have the same number.", "none", table, []query{
			{`max by (instance) (understudy_snapshot_sequence{` + chosen + `})`, "{{instance}}", []string{"10.0.0.7:8282", "10.0.0.8:8282"}},
		}, example{}},
		{"No answer from the store", "How old the policies may be.", "s", lines, []query{
			{`max by (instance) (understudy_snapshot_age_seconds{` + chosen + `})`, "{{instance}}", []string{"10.0.0.7:8282", "10.0.0.8:8282"}},
		}, example{most: "1 min", quiet: true}},
		{"Policies that are not as in the store", "Above zero there is an alert, and a section of the runbook.", "short", lines, []query{
			{`max(understudy_policies_not_applied{` + chosen + `})`, "not applied", []string{"not applied"}},
			{`max(understudy_store_missing_policies{` + chosen + `})`, "lost by the store", []string{"lost by the store"}},
			{`max(understudy_store_stale_policies{` + chosen + `})`, "older in the store", []string{"older in the store"}},
		}, example{most: "1", quiet: true}},
		{"Failures to apply and to save", "Policies and experiments that could not be applied; changes after which the snapshot file was not written.", "short", lines, []query{
			{`sum(increase(understudy_apply_failures_total{` + chosen + `}[$__rate_interval]))`, "not applied", []string{"not applied"}},
			{`sum(increase(understudy_snapshot_write_failures_total{` + chosen + `}[$__rate_interval]))`, "not saved", []string{"not saved"}},
		}, example{most: "1", quiet: true}},
	}},
	{"Rehearsal", []chart{
		{"Comparisons, by difference", "Requests that experiments have decided too.", "reqps", stacked, []query{
			{`sum by (difference) (rate(understudy_preview_comparisons_total{` + policy + `}[$__rate_interval]))`, "{{difference}}", []string{"UNCHANGED", "NEWLY_DENIED", "NEWLY_ALLOWED"}},
		}, example{most: "300 req/s"}},
		{"What each experiment would change", "Newly denied is a share of what the live policy allows, newly allowed of what it denies, of the last hour.", "percentunit", lines, []query{
			{newlyDenied, "{{experiment}}: newly denied", []string{"shop/tighter: newly denied"}},
			{newlyAllowed, "{{experiment}}: newly allowed", []string{"shop/tighter: newly allowed"}},
		}, example{most: "10 %"}},
		{"Comparisons that were not made", "sampled is by chance; the others are not.", "reqps", lines, []query{
			{`sum by (experiment, reason) (rate(understudy_preview_dropped_total{` + policy + `}[$__rate_interval]))`, "{{experiment}}: {{reason}}", []string{"shop/tighter: sampled"}},
		}, example{most: "10 req/s", quiet: true}},
		{"The rehearsal process", "Live decisions do not need it.", "short", lines, []query{
			{`sum by (cause) (increase(understudy_rehearsal_restarts_total{` + chosen + `}[$__rate_interval]))`, "restarts: {{cause}}", []string{"restarts: memory"}},
			{`sum(understudy_rehearsal_suspended{` + chosen + `})`, "experiments suspended", []string{"experiments suspended"}},
		}, example{most: "1", quiet: true}},
	}},
	{"Control plane", []chart{
		{"Requests to the admin port", "By how the caller was authenticated, and how that ended.", "reqps", stacked, []query{
			{`sum by (method, outcome) (rate(understudy_authentications_total{` + chosen + `}[$__rate_interval]))`, "{{method}}: {{outcome}}", []string{"token: ok", "oidc: ok", "token: expired"}},
		}, example{most: "3 req/s"}},
		{"Events of the audit log", "dropped and refused: the queue was full.", "short", lines, []query{
			{`sum by (outcome) (increase(understudy_audit_events_total{` + chosen + `}[$__rate_interval]))`, "{{outcome}}", []string{"written", "folded"}},
		}, example{most: "20"}},
		{"Records for the collector", "Records that wait, and records that were lost.", "short", lines, []query{
			{`sum by (queue) (understudy_export_waiting{` + chosen + `})`, "{{queue}} wait", []string{"preview wait"}},
			{`sum by (queue, reason) (increase(understudy_export_dropped_total{` + chosen + `}[$__rate_interval]))`, "{{queue}} lost: {{reason}}", nil},
		}, example{most: "100", quiet: true}},
		{"Unknown callers", "What callers without credentials use of their budget.", "short", lines, []query{
			{`sum by (port, kind) (understudy_unknown_callers{` + chosen + `, kind!="bytes"})`, "{{port}}: {{kind}}", []string{"health: connections", "admin: connections"}},
		}, example{most: "10"}},
	}},
	{"Resources", []chart{
		{"Processors", "Processor seconds each second, without the rehearsal process.", "short", lines, []query{
			{`sum by (instance) (rate(process_cpu_seconds_total{` + chosen + `}[$__rate_interval]))`, "{{instance}}", []string{"10.0.0.7:8282", "10.0.0.8:8282"}},
		}, example{most: "2"}},
		{"Memory", "Of the live process, of the rehearsal process, and for bodies.", "bytes", lines, []query{
			{`sum by (instance) (process_resident_memory_bytes{` + chosen + `})`, "{{instance}}", []string{"10.0.0.7:8282"}},
			{`sum by (instance) (understudy_rehearsal_memory_bytes{` + chosen + `})`, "{{instance}}: rehearsal", []string{"10.0.0.7:8282: rehearsal"}},
			{`sum by (instance) (understudy_body_memory_bytes{` + chosen + `})`, "{{instance}}: bodies", []string{"10.0.0.7:8282: bodies"}},
		}, example{most: "300 MiB"}},
		{"Processes", "Those that are ready, and those that enforce nothing (--observe).", "short", lines, []query{
			{`count(understudy_ready{` + chosen + `} == 1)`, "ready", []string{"ready"}},
			{`count(understudy_ready{` + chosen + `} == 0)`, "not ready", nil},
			{`sum(understudy_observing{` + chosen + `})`, "observing", []string{"observing"}},
		}, example{most: "3"}},
		{"Time until credentials expire", "Certificates by port, and the first name of a token file without a valid token.", "s", lines, []query{
			{`min by (port) (understudy_tls_certificate_expiry_seconds{` + chosen + `}) - time()`, "certificate: {{port}}", []string{"certificate: admin"}},
			{`min(understudy_authentication_token_expiry_seconds{` + chosen + `}) - time()`, "token", []string{"token"}},
		}, example{most: "90 days"}},
	}},
}
