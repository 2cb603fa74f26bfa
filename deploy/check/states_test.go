package check_test

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/admin"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	"understudy/authz"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port/certtest"
)

// getOnly allows GET, and has an answer to each request.
const getOnly = `default allow := false

allow if input.attributes.request.http.method == "GET"`

// The states of processes, by the alerts that fire in them. Each function brings a process into the state, and returns the
// pages of before and then.
var states = map[string]struct {
	// fires are the alerts, all of them.
	fires []string
	// held is for how long the process is in the state; 0 means 20 minutes.
	held  time.Duration
	reach func(*testing.T) (before, in page)
}{
	"ordinary traffic":                       {nil, 0, ordinary},
	"checks fail":                            {[]string{"UnderstudyChecksFail"}, 0, checksFail},
	"requests name a missing policy":         {[]string{"UnderstudyPolicyDoesNotExist"}, 0, noPolicy},
	"60 slow checks at once":                 {[]string{"UnderstudyOverloaded"}, 0, overloaded},
	"started without the store":              {[]string{"UnderstudyNotReady"}, 0, notReady},
	"observing for an hour":                  {nil, time.Hour, observing},
	"observing for a day":                    {[]string{"UnderstudyObserving"}, 25 * time.Hour, observing},
	"the record of an experiment is damaged": {[]string{"UnderstudyExperimentsNotApplied"}, 0, notApplied("shop", "policies/shop/experiments/next")},
	"the record of a policy is damaged":      {[]string{"UnderstudyPoliciesNotApplied"}, 0, notApplied("other", "policies/other")},
	"Redis has been away for two minutes":    {nil, 2 * time.Minute, unreachable},
	"Redis is away":                          {[]string{"UnderstudyStoreUnreachable"}, 0, unreachable},
	"Redis is away from the admin API":       {[]string{"UnderstudyStoreUnreachable"}, 0, unreachableForAdmin},
	"Redis is empty":                         {[]string{"UnderstudyStoreHasLostPolicies"}, 0, lostPolicies},
	"the store has an older version":         {[]string{"UnderstudyStoreWentBack"}, 0, wentBack},
	"the snapshot file cannot be written":    {[]string{"UnderstudySnapshotNotWritten"}, 0, notWritten},
	"an experiment is suspended":             {[]string{"UnderstudyRehearsalSuspended"}, 0, suspended},
	"the audit queue is full":                {[]string{"UnderstudyAuditEventsDropped"}, 0, auditDropped},
	"the same with --audit required":         {[]string{"UnderstudyChangesRefused"}, 0, changesRefused},
	"a certificate expires in a month":       {nil, 0, certificate(30 * 24 * time.Hour)},
	"a certificate expires in three days":    {[]string{"UnderstudyCertificateExpires"}, 0, certificate(3 * 24 * time.Hour)},
	"a certificate expires in an hour":       {[]string{"UnderstudyCertificateExpires", "UnderstudyCertificateExpiresToday"}, 0, certificate(time.Hour)},
	"a certificate file is damaged":          {[]string{"UnderstudyCertificateNotReloaded"}, 0, notReloaded},
	"a token expires in a month":             {nil, 0, token(30 * 24 * time.Hour)},
	"a token expires in three days":          {[]string{"UnderstudyTokenExpires"}, 0, token(3 * 24 * time.Hour)},
	"a token has expired":                    {[]string{"UnderstudyTokenExpires"}, 0, token(-time.Hour)},
}

// TestAlertsOfStates: in each state its alerts fire, and no other, and their texts have the number.
func TestAlertsOfStates(t *testing.T) {
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, in := state.reach(t)
			held := cmp.Or(state.held, 20*time.Minute)
			got := timeline{before, in, held, time.Now()}.alerts(t)
			if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, state.fires) {
				t.Errorf("the alerts are %v, want %v", names, state.fires)
			}
			for name, sample := range got {
				checkTexts(t, rules(t)[name], sample)
			}
		})
	}
}

// TestEachAlertHasAState: no alert is left out, except those about faults of Understudy. Nobody can bring a process into
// such a state from outside: TestAlerts writes their series.
func TestEachAlertHasAState(t *testing.T) {
	known := []string{
		"UnderstudyDecisionIsWrong", "UnderstudyVerificationEnds", "UnderstudyVerificationFails", "UnderstudyNothingIsVerified",
		"UnderstudyContradiction", "UnderstudyPanics",
	}
	for _, state := range states {
		known = append(known, state.fires...)
	}
	for name, rule := range rules(t) {
		if rule.Alert != "" && !slices.Contains(known, name) {
			t.Errorf("no state has the alert %s", name)
		}
	}
}

// pages has a process reach a state.
func (s *server) pages(reach func()) (before, in page) {
	s.t.Helper()
	before = s.scrape()
	reach()
	return before, s.scrape()
}

// ordinary is a process with traffic that is allowed and denied.
func ordinary(t *testing.T) (before, in page) {
	s := startServer(t, nil)
	s.createPolicy("shop", getOnly)
	return s.pages(func() {
		s.checks(100, "shop", "/x")
		for range 20 {
			s.check("shop", "POST", "/x", "")
		}
	})
}

// noPolicy is a process that is asked by a policy which is not there.
func noPolicy(t *testing.T) (before, in page) {
	s := startServer(t, nil)
	s.createPolicy("shop", getOnly)
	s.checks(1, "shop", "/x")
	s.checks(1, "other", "/x")
	return s.pages(func() { s.checks(300, "other", "/x") })
}

// checksFail is a process with a policy whose rule has a value of the wrong type for some paths.
func checksFail(t *testing.T) (before, in page) {
	s := startServer(t, nil)
	s.createPolicy("shop", `allow := input.parsed_path[0] == "good" if input.parsed_path[0] != "bad"

allow := input.parsed_path if input.parsed_path[0] == "bad"`)
	s.checks(10, "shop", "/good")
	return s.pages(func() {
		s.checks(300, "shop", "/good")
		s.checks(60, "shop", "/bad")
	})
}

// overloaded is a process of which 60 callers at once ask for a slow decision: most of them wait for the others too long.
func overloaded(t *testing.T) (before, in page) {
	s := startServer(t, []string{"GOMAXPROCS=2"})
	s.createPolicy("shop", `default allow := false

allow if input.parsed_path[0] == "fast"

allow if {
	input.parsed_path[0] == "slow"
	count([1 | some i in numbers.range(1, 3000); some j in numbers.range(1, 3000); i * j == to_number(input.parsed_path[1])]) == 0
}`)
	s.checks(10, "shop", "/fast")
	var callers sync.WaitGroup
	before, in = s.pages(func() {
		for i := range 60 {
			callers.Go(func() {
				if response, err := http.Get(fmt.Sprintf("http://%s/envoy@shop/slow/%d", s.authz, i)); err == nil {
					_ = response.Body.Close()
				}
			})
		}
		testkit.Await(t, "40 checks are OVERLOADED", func() bool { return s.scrape().sum("understudy_checks_total", "failure", "OVERLOADED") >= 40 })
	})
	testkit.Kill(s.process)
	callers.Wait()
	return before, in
}

// notReady is a process that has neither the store nor a snapshot file.
func notReady(t *testing.T) (before, in page) {
	s := startServer(t, nil, "--enable", "authz", "--store", "redis://"+testkit.FreeAddress(), "--snapshot-file", filepath.Join(t.TempDir(), "snapshot"))
	return nil, s.scrape()
}

// observing is a process with --observe.
func observing(t *testing.T) (before, in page) {
	s := startServer(t, nil, "--observe")
	s.createPolicy("shop", getOnly)
	s.checks(10, "shop", "/x")
	return nil, s.scrape()
}

// onRedis starts a server with a policy in a Redis.
func onRedis(t *testing.T) (*server, *storetest.RedisServer) {
	redis := storetest.StartRedis(t)
	s := startServer(t, nil, "--store", redis.URL(), "--snapshot-file", filepath.Join(t.TempDir(), "snapshot"))
	s.createPolicy("shop", getOnly)
	return s, redis
}

// awaitMetric waits until a metric has a value above zero.
func (s *server) awaitMetric(name string) {
	s.t.Helper()
	testkit.Await(s.t, name+" is above zero", func() bool { return s.scrape().value(name) > 0 })
}

// notApplied returns the state of a process that follows a store in which a record cannot be read. The policy is the
// record's, or that of its experiment.
func notApplied(policy authz.PolicyID, record string) func(*testing.T) (before, in page) {
	return func(t *testing.T) (before, in page) {
		s, redis := onRedis(t)
		store, err := redisstore.Open(redis.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return s.pages(func() {
			if _, err := store.Commit(t.Context(), admin.Txn{
				ID: "1", Project: "p1",
				Writes: []admin.Write{admin.Put{Key: admin.Key(location + "/" + record), Value: []byte("\x0a\xff\x01nonsense"), Etag: "e"}},
				Events: []admin.Event{{Location: location, Policies: []authz.PolicyName{authz.Location(location).Policy(policy)}}},
			}); err != nil {
				t.Fatal(err)
			}
			s.awaitMetric("understudy_policies_not_applied")
		})
	}
}

// unreachable is a process whose Redis has ended.
func unreachable(t *testing.T) (before, in page) {
	s, redis := onRedis(t)
	return s.pages(func() {
		redis.Stop()
		s.awaitMetric("understudy_snapshot_age_seconds")
	})
}

// unreachableForAdmin is a server of the admin API alone whose Redis has ended.
func unreachableForAdmin(t *testing.T) (before, in page) {
	redis := storetest.StartRedis(t)
	s := startServer(t, nil, "--store", redis.URL(), "--enable", "admin")
	return s.pages(func() {
		redis.Stop()
		s.awaitMetric("understudy_store_lost_seconds")
	})
}

// lostPolicies is a process whose Redis was emptied.
func lostPolicies(t *testing.T) (before, in page) {
	s, redis := onRedis(t)
	return s.pages(func() {
		network, address := redis.Address()
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		answer := make([]byte, 5)
		if _, err = io.WriteString(conn, "FLUSHALL\r\n"); err == nil {
			_, err = io.ReadFull(conn, answer)
		}
		if err != nil || string(answer) != "+OK\r\n" {
			t.Fatalf("FLUSHALL is answered with %q, %v", answer, err)
		}
		s.awaitMetric("understudy_store_missing_policies")
	})
}

// wentBack is a process that starts with its snapshot file and with the store of before a change.
func wentBack(t *testing.T) (before, in page) {
	file := filepath.Join(t.TempDir(), "u.db")
	start := func() *server {
		return startServer(t, nil, "--store", "bolt://"+file, "--snapshot-file", file+".snapshot")
	}
	s := start()
	s.createPolicy("shop", getOnly)
	s.stop()
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s = start()
	s.awaitReady()
	s.change("PATCH", policies+"/shop", content("default allow := false"))
	testkit.Await(t, "the change is applied", func() bool { return s.check("shop", "GET", "/x", "") == http.StatusForbidden })
	s.stop()
	if err := os.WriteFile(file, older, 0o600); err != nil {
		t.Fatal(err)
	}
	s = start()
	s.awaitReady()
	s.awaitMetric("understudy_store_stale_policies")
	return nil, s.scrape()
}

// notWritten is a process whose folder for the snapshot file has been replaced by a file.
func notWritten(t *testing.T) (before, in page) {
	folder := filepath.Join(t.TempDir(), "state")
	s := startServer(t, nil, "--snapshot-file", filepath.Join(folder, "snapshot"))
	s.createPolicy("shop", getOnly)
	return s.pages(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.change("POST", policies+"?policyId=other", content(getOnly))
		s.awaitMetric("understudy_snapshot_unsaved")
	})
}

// suspended is a process with an experiment that takes all memory of the rehearsal process.
func suspended(t *testing.T) (before, in page) {
	s := startServer(t, nil, "--rehearsal-memory", fmt.Sprint(96<<20))
	s.createPolicy("shop", "allow := true")
	experiments := policies + "/shop/experiments"
	s.change("POST", experiments+"?policyExperimentId=large", fmt.Sprintf(`{"policy":{"name":"%s/policies/shop",%s}`, location,
		strings.TrimPrefix(content(`allow if { input.attributes.request.http.method == "GET"
n := numbers.range(1, 3000); l := [[i, j, k] | some i in n; some j in n; some k in n]; count(l) > 0 }`), "{")))
	s.change("POST", experiments+"/large:startPreview", "{}")
	return s.pages(func() {
		testkit.Await(t, "the experiment is suspended", func() bool {
			s.checks(5, "shop", "/x")
			return s.scrape().value("understudy_rehearsal_suspended") > 0
		})
	})
}

// withoutCollector are variables by which events wait for a collector that is not there.
func withoutCollector() []string {
	return []string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=http://" + testkit.FreeAddress(), "OTEL_BLRP_MAX_QUEUE_SIZE=2"}
}

// auditDropped is a process whose events of the audit log find the queue full.
func auditDropped(t *testing.T) (before, in page) {
	s := startServer(t, withoutCollector())
	s.awaitReady()
	return s.pages(func() {
		for i := range 6 {
			s.change("POST", fmt.Sprintf("%s?policyId=p%d", policies, i), content(getOnly))
		}
		s.awaitFate("dropped")
	})
}

// changesRefused is the same with --audit required.
func changesRefused(t *testing.T) (before, in page) {
	s := startServer(t, withoutCollector(), "--audit", "required")
	s.awaitReady()
	return s.pages(func() {
		for i := range 6 {
			s.request("POST", s.admin, fmt.Sprintf("%s?policyId=p%d", policies, i), content(getOnly))
		}
		s.awaitFate("refused")
	})
}

// awaitFate waits until the page has events of the audit log with an outcome.
func (s *server) awaitFate(outcome string) {
	s.t.Helper()
	testkit.Await(s.t, "events are "+outcome, func() bool { return s.scrape().sum("understudy_audit_events_total", "outcome", outcome) > 0 })
}

// certificate returns the state of a process whose certificate is valid for as long.
func certificate(valid time.Duration) func(*testing.T) (before, in page) {
	return func(t *testing.T) (before, in page) {
		files := certtest.NewAuthority(t, t.TempDir(), "ca").Issue(t, "authz", 1, valid, x509.ExtKeyUsageServerAuth)
		s := startServer(t, nil, "--authz-tls-cert", files.Cert, "--authz-tls-key", files.Key)
		s.awaitReady()
		return nil, s.scrape()
	}
}

// notReloaded is a process whose file of a certificate is damaged while it runs.
func notReloaded(t *testing.T) (before, in page) {
	files := certtest.NewAuthority(t, t.TempDir(), "ca").Server(t, "authz", 1)
	s := startServer(t, nil, "--authz-tls-cert", files.Cert, "--authz-tls-key", files.Key, "--tls-reload-interval", "100ms")
	s.awaitReady()
	return s.pages(func() {
		if err := os.WriteFile(files.Cert, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.awaitMetric("understudy_tls_reload_failing")
	})
}

// token returns the state of a process with a token that expires after a time.
func token(after time.Duration) func(*testing.T) (before, in page) {
	return func(t *testing.T) (before, in page) {
		file := filepath.Join(t.TempDir(), "tokens")
		line := fmt.Sprintf("ci %064x %s\n", 1, time.Now().Add(after).UTC().Format(time.RFC3339))
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		s := startServer(t, nil, "--admin-token-file", file, "--admin-owner", "token:ci")
		s.awaitReady()
		return nil, s.scrape()
	}
}
