package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/cmd/testkit"
)

// The rows about reports, and what a commit requires of them, that a script would say badly.
func init() {
	rows["R-5"] = hotFixInBetween
	rows["R-8"] = evidenceThatCannotBeRead
	rows["R-9"] = commitsWithRequirementsRace
	rows["R-10"] = servesLater
	rows["R-11"] = keptReportIsBounded
	rows["R-14"] = editTakenBack
}

// serial numbers all publications of all rows.
var serial atomic.Int64

// publishEvidence is `evidence n1 {…}`.
func (r *row) publishEvidence(rest string) {
	r.expectSuccess()
	name, body, _ := strings.Cut(rest, " ")
	e := &evidencepb.Evidence{}
	if err := protojson.Unmarshal([]byte(r.body(body)), e); err != nil {
		r.fatalf("evidence NODE JSON: %v", err)
	}
	r.publish(name, e)
}

// publish publishes evidence of the experiment as a node does.
func (r *row) publish(name string, e *evidencepb.Evidence) {
	r.Helper()
	experiment := r.experimentAt("$exp")
	if e.ExperimentEtag == "" {
		e.ExperimentEtag = experiment.Etag
	}
	for _, p := range e.Pairs {
		if p.PolicyEtag == "" {
			p.PolicyEtag = r.policyAt("$pol").Etag
		}
	}
	r.nameItems(e, experiment)
	if e.PublishInterval == nil {
		e.PublishInterval = durationpb.New(20 * time.Second)
	}
	e.Experiment, e.Uid, e.PublishTime = experiment.Name, experiment.Uid, timestamppb.New(r.clock.now())
	value, err := proto.Marshal(e)
	if err != nil {
		r.Fatal(err)
	}
	r.publishBytes(name, experiment, value)
}

// nameItems writes into evidence of items that names no list the digest of what the two versions that
// are stored differ in.
func (r *row) nameItems(e *evidencepb.Evidence, experiment *adminpb.PolicyExperiment) {
	r.Helper()
	for _, p := range e.Pairs {
		for _, of := range p.Items {
			if len(of.Digest) > 0 {
				continue
			}
			list, err := authz.Items(r.Context(), r.policyAt("$pol"), experiment.Policy)
			if err != nil {
				r.Fatal(err)
			}
			of.Digest = list.Digest
		}
	}
}

// publishBytes publishes what need not be evidence.
func (r *row) publishBytes(name string, experiment *adminpb.PolicyExperiment, value []byte) {
	r.Helper()
	out, err := r.store.Publish(r.Context(), r.nodeName(name), []authz.PublishedEvidence{{
		Experiment: experiment.Name, UID: experiment.Uid, Tally: "tally-of-" + name, Serial: serial.Add(1), Value: value,
	}})
	if err != nil || len(out.Refused) > 0 {
		r.fatalf("publishing: %v, refused %v", err, out.Refused)
	}
}

// experimentAt reads an experiment from the store.
func (r *row) experimentAt(name string) *adminpb.PolicyExperiment {
	r.Helper()
	records, err := r.store.Get(r.Context(), admin.Key(r.path(name)))
	if err != nil {
		r.Fatal(err)
	}
	return decodeRow(r, records[0], &adminpb.PolicyExperiment{})
}

// requests is evidence of so many requests that are decided alike.
func requests(n int64) *evidencepb.Evidence {
	return &evidencepb.Evidence{Pairs: []*evidencepb.Pair{{Counts: &evidencepb.Counts{BothAllow: n}}}}
}

// hookedStore calls a function before each read of evidence: when the experiment and its
// policy have been read, and the change has not been made.
type hookedStore struct {
	stores
	before func()
}

func (s *hookedStore) Evidence(ctx context.Context, name admin.EvidenceName) (admin.Evidence, error) {
	s.before()
	return s.stores.Evidence(ctx, name)
}

// hooked serves the store with something that happens once, between the reading of what a
// commit depends on and the commit.
func (r *row) hooked(happens func()) {
	done := false
	store := *r.store
	store.stores = &hookedStore{r.store.stores, func() {
		if !done {
			done = true
			happens()
		}
	}}
	r.servers["hooked"] = r.serve(&store)
}

// hotFixInBetween changes what a commit was judged by, after it was read.
func hotFixInBetween(r *row) {
	r.do("GET $EXP\nE = .etag\nGET $POL\nLIVE = .etag")
	r.publish("n1", requests(10))
	commit := `POST $EXP:commit {"etag":$E,"requirements":{"minRequestCount":10}}`

	// Of the hot fix nothing is known: there is a new pair.
	r.hooked(func() {
		hotFix := `{"displayName":"hot fix"}`
		r.post2xx("PATCH", r.path("$POL"), hotFix)
	})
	r.do("via hooked\n" + commit + "\nerror 400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET\n" +
		`is .PreconditionFailure.violations[0].description "have 0, need at least 10 (required by the call)"` + "\nvia s1\n" +
		"GET $POL\nis .displayName \"hot fix\"\nGET $EXP\nis .etag $E")
	r.do(`POST $EXP:commit {"etag":$E,"parentEtag":$LIVE,"requirements":{"minRequestCount":10}}` + "\nerror 409 ABORTED PARENT_ETAG_MISMATCH")

	// A location's guard that is tightened meanwhile holds, too.
	r.publish("n1", requests(10))
	r.hooked(func() {
		guard := `{"commitRequirements":{"minRequestCount":11}}`
		r.post2xx("PATCH", r.path("$L/config"), guard)
	})
	r.do("via hooked\n" + commit + "\nerror 400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET\n" +
		`is .PreconditionFailure.violations[0].description "have 10, need at least 11 (required by the location)"` +
		"\ncount .PreconditionFailure.violations 1\nvia s1\nGET $EXP\nis .etag $E")

	// An experiment that was changed is another one.
	r.do("PATCH $L/config?updateMask=commitRequirements {}")
	r.hooked(func() {
		r.post2xx("PATCH", r.path("$EXP"), `{"displayName":"changed"}`)
	})
	r.do("via hooked\n" + commit + "\nerror 409 ABORTED ETAG_MISMATCH\nvia s1")

	// One that was committed meanwhile is not there, and neither is its evidence.
	r.do("GET $EXP\nE = .etag")
	r.publish("n1", requests(10))
	r.hooked(func() { r.post2xx("POST", r.path("$EXP:commit"), r.body(`{"etag":$E}`)) })
	r.do("via hooked\n" + commit + "\nerror 404 NOT_FOUND RESOURCE_NOT_FOUND\nvia s1")
}

// editTakenBack sets the policy of an experiment, and takes that back, while it is committed: its
// etag is as it was, and yet somebody else has set it.
func editTakenBack(r *row) {
	r.do("as token:ann\n" + baseFixture["experiment"] + "\nGET $EXP\nE = .etag\nBEFORE = .policy\nas token:bob")
	r.hooked(func() {
		r.post2xx("PATCH", r.path("$EXP?updateMask=policy"), r.body(`{"policy":{"name":"$pol","rules":RULES_A}}`))
		r.post2xx("PATCH", r.path("$EXP?updateMask=policy"), r.body(`{"policy":$BEFORE}`))
	})
	r.do("via hooked\n" + `POST $EXP:commit {"etag":$E,"requirements":{"requireDifferentCommitter":true}}` +
		"\nerror 400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET\n" +
		`matches .PreconditionFailure.violations[0].description token:bob,.who.has.set` + "\nvia s1\nGET $EXP\nis .etag $E\nis .policyEditors [\"token:ann\",\"token:bob\"]")
}

// post2xx makes a call on the first server that has to succeed.
func (r *row) post2xx(method, target, body string) {
	r.Helper()
	via := r.via
	r.via = "s1"
	defer func() { r.via = via }()
	if a := r.send(method, target, &body); a.status != http.StatusOK {
		r.Errorf("%s: %d %s", a.request, a.status, a.body)
	}
}

// laterEvidence reads evidence as it is after some time without publications. Its age is by the
// clock of the store, which no row moves.
type laterEvidence struct {
	stores
	later time.Duration
}

func (s laterEvidence) Evidence(ctx context.Context, name admin.EvidenceName) (admin.Evidence, error) {
	e, err := s.stores.Evidence(ctx, name)
	for i := range e.Tallies {
		e.Tallies[i].Age += s.later
	}
	return e, err
}

// servesLater is a server `later` that reads all evidence as what was published so long ago that
// a node counts as dead by now.
func servesLater(r *row) {
	store := *r.store
	store.stores = laterEvidence{r.store.stores, authz.NodeLifetime}
	r.servers["later"] = r.serve(&store)
}

// brokenEvidence fails each read of evidence.
type brokenEvidence struct{ stores }

func (brokenEvidence) Evidence(context.Context, admin.EvidenceName) (admin.Evidence, error) {
	return admin.Evidence{}, fmt.Errorf("reading: %w", admin.ErrUnavailable)
}

// evidenceThatCannotBeRead lets nothing pass that is required, and stops nothing else.
func evidenceThatCannotBeRead(r *row) {
	const guarded, plainly = `POST $EXP:commit {"etag":$E,"requirements":{"maxNewlyDeniedCount":"0"}}`, `POST $EXP:commit {"etag":$E}`
	r.do("GET $EXP\nE = .etag")
	store := *r.store
	store.stores = brokenEvidence{r.store.stores}
	r.servers["broken"] = r.serve(&store)
	r.do("via broken\nGET $EXP/report\nerror 503 UNAVAILABLE STORE_UNAVAILABLE\n" + guarded + "\nerror 503 UNAVAILABLE STORE_UNAVAILABLE\n" +
		`POST $EXP:commit {"etag":$E,"validateOnly":true,"requirements":{"maxNewlyDeniedCount":"0"}}` + "\nerror 503 UNAVAILABLE\nvia s1")

	r.publishBytes("n1", r.experimentAt("$exp"), []byte("no evidence"))
	r.do("GET $EXP/report\nerror 500 DATA_LOSS RESOURCE_DAMAGED\nis .ErrorInfo.metadata.resource $exp/report\n" +
		"is .ResourceInfo.resourceType understudy.internal/Report\n" + guarded + "\nerror 500 DATA_LOSS RESOURCE_DAMAGED\nGET $EXP\nis .etag $E")

	// What the node publishes next takes its place.
	r.publish("n1", requests(3))
	r.do("GET $EXP/report\nis .requestCount \"3\"")
	r.publishBytes("n1", r.experimentAt("$exp"), []byte("no evidence"))
	r.do(plainly + "\nOP Empty\nabsent op.metadata.report")
}

// commitsWithRequirementsRace holds with requirements what holds without: of all commits and
// changes at one time, one succeeds, and nothing is committed whose report does not show it.
func commitsWithRequirementsRace(r *row) {
	r.do("DELETE $EXP\nOP PolicyExperiment")
	won := map[string]int{}
	for i := range testkit.Cases(50) {
		r.do(fmt.Sprintf(`POST $POL/experiments?policyExperimentId=e1 {"policy":{"name":"$pol","displayName":"%d"}}`, i) +
			"\nOP PolicyExperiment\nE = .etag\nGET $POL\nLIVE = .etag")
		r.publish("n1", requests(10))
		target := r.path("$EXP:commit")
		commit := func() *apiResponse {
			return r.post(target, r.body(`{"etag":$E,"requirements":{"minRequestCount":10}}`))
		}
		if i%2 == 0 {
			counts := statusCounts(together(commit, commit, commit))
			if counts[http.StatusOK] != 1 || counts[http.StatusNotFound] != 2 {
				r.Fatalf("round %d: of three commits: %v", i, counts)
			}
			continue
		}
		// The commit is first, and the fix comes after it; or the fix is, and there is no evidence.
		fix := fmt.Sprintf(`{"displayName":"fix %d"}`, i)
		answers := together(commit, func() *apiResponse { return r.send("PATCH", r.path("$POL"), &fix) })
		if answers[1].status != http.StatusOK {
			r.Fatalf("round %d: the fix is answered %d %s", i, answers[1].status, answers[1].body)
		}
		switch answers[0].status {
		case http.StatusOK:
			won["commit"]++
		case http.StatusBadRequest:
			won["fix"]++
		default:
			r.Fatalf("round %d: the commit is answered %d %s", i, answers[0].status, answers[0].body)
		}
		r.do("GET $POL\nis .displayName \"" + fmt.Sprintf("fix %d", i) + "\"\nDELETE $EXP?allowMissing=true")
	}
	r.Logf("who was first: %v", won)
}

// keptReportIsBounded commits by a report that is larger than what an operation keeps.
func keptReportIsBounded(r *row) {
	e := requests(10)
	for i := range 14 * 14 { // a place with more than 16 children is folded
		pattern := fmt.Sprintf("/group%c/page%c", 'a'+i/14, 'a'+i%14)
		g := &evidencepb.Group{Kind: int32(adminpb.Report_RESPONSE_CHANGED), Method: "GET", Pattern: pattern, Count: 1}
		for n := range 3 {
			g.Examples = append(g.Examples, &evidencepb.Example{Path: pattern + strings.Repeat("/x", 120) + fmt.Sprint(n)})
		}
		e.Pairs[0].Groups = append(e.Pairs[0].Groups, g)
		e.Pairs[0].Counts.AllowedChanged++
	}
	r.publish("n1", e)
	r.do("GET $EXP\nE = .etag\nGET $EXP/report\ncount .differences 196\ncount .differences[0].examples 3\n" +
		`POST $EXP:commit {"etag":$E,"requirements":{"minRequestCount":10}}` + "\nOP Empty\nis op.metadata.report.requestCount \"206\"\n" +
		"count op.metadata.report.requirements 3\nis op.metadata.report.requirementsMet true")
	if n := len(asJSON(r.operation)); n > 128<<10 {
		r.Errorf("the operation has %d bytes as JSON", n)
	}
}
