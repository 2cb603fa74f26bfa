package admin_test

import (
	"fmt"

	"github.com/google/uuid"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// The rows about acceptances that a script would say badly.
func init() {
	rows["C-7"] = acceptancesAreLimited
	rows["C-8"] = acceptanceTakenBack
	rows["C-11"] = damagedAcceptances
	rows["C-19"] = acceptedItemTakenBack
}

// denied is evidence of so many newly denied requests, each of a group of its own.
func denied(n int) *evidencepb.Evidence {
	p := &evidencepb.Pair{Counts: &evidencepb.Counts{NewlyDenied: int64(n)}}
	for i := range n {
		p.Groups = append(p.Groups, &evidencepb.Group{
			Kind: int32(adminpb.Report_NEWLY_DENIED), Method: "GET", Pattern: fmt.Sprintf("/group%c/page%c", 'a'+i/14, 'a'+i%14), Count: 1,
		})
	}
	return &evidencepb.Evidence{Pairs: []*evidencepb.Pair{p}}
}

// acceptAll is a script that accepts the first groups of the report.
func acceptAll(n int) (script string) {
	script = "GET $EXP/report\nREPORT = .\n"
	for i := range n {
		script += fmt.Sprintf("GET $EXP/report\nID = .differences[%d].groupId\n", i) +
			`POST $EXP/acceptances {"groupId":$ID,"experimentEtag":$REPORT.experimentEtag,"reason":"fine"}` + "\n"
	}
	return script
}

// acceptancesAreLimited accepts as many groups as may be accepted, and one more.
func acceptancesAreLimited(r *row) {
	r.publish("n1", denied(51))
	r.do(acceptAll(50) + `GET $EXP/report
ID = .differences[50].groupId
POST $EXP/acceptances {"groupId":$ID,"experimentEtag":$REPORT.experimentEtag,"reason":"fine"}
error 429 RESOURCE_EXHAUSTED ACCEPTANCE_LIMIT
POST $EXP/acceptances?validateOnly=true {"groupId":$ID,"experimentEtag":$REPORT.experimentEtag,"reason":"fine"}
error 429 RESOURCE_EXHAUSTED ACCEPTANCE_LIMIT
PATCH $EXP {"displayName":"other"}
OP PolicyExperiment`)
	r.publish("n1", denied(1))
	r.do(acceptAll(1) + "GET $EXP/acceptances\ncount .acceptances 1")
}

// acceptanceTakenBack takes an acceptance back after a commit has been judged by it.
func acceptanceTakenBack(r *row) {
	r.publish("n1", denied(1))
	r.do(acceptAll(1) + "GET $EXP/acceptances\nA = .acceptances[0].name\nGET $EXP\nE = .etag")
	r.hooked(func() { r.post2xx("DELETE", r.path("/v1/$A"), "") })
	r.do("via hooked\n" + `POST $EXP:commit {"etag":$E,"requirements":{"maxNewlyDeniedCount":0}}` +
		"\nerror 400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET\nvia s1\nGET $EXP\nis .etag $E")
}

// acceptedItemTakenBack takes the acceptance of an item back after a commit has been judged by it.
func acceptedItemTakenBack(r *row) {
	r.do(`PATCH $EXP?updateMask=policy {"policy":{"name":"$pol","rules":[{"rego":{}}],"modules":{"a.rego":"package envoy.authz\n\nallow if input.x\n"}}}
OP PolicyExperiment
GET $EXP/report
E = .experimentEtag
ID = .changeId
POST $EXP/acceptances?acceptanceId=a {"itemId":$ID,"experimentEtag":$E,"reason":"fine"}`)
	r.publish("n1", requests(3))
	r.hooked(func() { r.post2xx("DELETE", r.path("$EXP/acceptances/a"), "") })
	r.do("via hooked\n" + `POST $EXP:commit {"etag":$E,"requirements":{"maxUnjudgedCount":0}}` +
		"\nerror 400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET\nvia s1\nGET $EXP\nis .etag $E")
}

// damagedAcceptances puts nonsense in the place of what was accepted.
func damagedAcceptances(r *row) {
	r.publish("n1", denied(1))
	r.do(acceptAll(1) + "GET $EXP/acceptances\nA = .acceptances[0].name\nE = .acceptances[0].experimentEtag\nID = .acceptances[0].groupId")
	txn := admin.Txn{ID: uuid.NewString(), Project: r.store.project, Writes: []admin.Write{
		admin.Put{Key: admin.Key(r.path("$pol/acceptances/e1")), Value: []byte(notAMessage)},
	}}
	if _, err := r.store.Commit(r.Context(), txn); err != nil {
		r.Fatal(err)
	}
	r.do(`
GET $EXP/acceptances
absent .acceptances
is .unreachable ["$exp"]
GET /v1/$A` + dataLoss + `matches .message Accept.what.is.to.be.accepted.again
DELETE /v1/$A` + dataLoss + `
GET $EXP/report?requirements.maxNewlyDeniedCount=0
absent .requirementsMet
POST $EXP:commit {"etag":$E,"requirements":{"maxNewlyDeniedCount":0}}
error 400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET
POST $EXP/acceptances?acceptanceId=again {"groupId":$ID,"experimentEtag":$E,"reason":"still fine"}
GET $EXP/acceptances
ids .acceptances again
absent .unreachable
POST $EXP:commit {"etag":$E,"requirements":{"maxNewlyDeniedCount":0}}
OP Empty`)
}
