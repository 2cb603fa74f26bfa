package admin_test

import (
	"github.com/google/uuid"

	"understudy/admin"
	"understudy/authz"
)

func init() { rows["B-121"] = damageStaysWhereItIs }

// notAMessage is no message: its first field does not end.
const notAMessage = "\x0a\xff\x01nonsense"

// spoil puts bytes in the place of what is stored under a name, and has the sidecars read
// the policy anew.
func (r *row) spoil(name string) {
	r.Helper()
	key := admin.Key(r.path(name))
	records, err := r.store.Get(r.Context(), key)
	if err != nil || records[0].Key == "" {
		r.Fatalf("%s is %+v, %v", key, records, err)
	}
	_, err = r.store.Commit(r.Context(), admin.Txn{
		ID: uuid.NewString(), Project: r.store.project,
		Writes: []admin.Write{admin.Put{
			Key: key, Value: []byte(notAMessage), Etag: records[0].Etag, ExpireTime: records[0].ExpireTime, Sequence: records[0].Sequence,
		}},
		Events: []admin.Event{{Location: r.location(), Policies: []authz.PolicyName{authz.PolicyName(r.path("$pol"))}}},
	})
	if err != nil {
		r.Fatal(err)
	}
	r.await("the sidecar follows", func() string { return r.unreported("n1") })
}

func damageStaysWhereItIs(r *row) {
	damagedPolicy(r)
	damagedExperiment(r)
	damagedRevision(r)
	damagedOperation(r)
	damagedConfig(r)
	damagedAndDeleted(r)
}

const dataLoss = "\nerror 500 DATA_LOSS RESOURCE_DAMAGED\n"

// damagedPolicy: sidecars go on by the last good version, other resources are read as
// always, and the policy can be replaced and rolled back.
func damagedPolicy(r *row) {
	r.do("GET $POL\nLIVE = .\nPOST $EXP:startPreview {}\nOP PolicyExperiment\nE = .etag")
	r.spoil("$pol")
	r.do(`
# Its last good version decides, and others are followed.
TRAFFIC GET 200
TRAFFIC POST 403
PATCH $L/policies/other {"rules":RULES_A}
OP Policy
TRAFFIC GET 200 policy=other
GET $L/nodes
matches .nodes[0].error.message $pol

GET $POL` + dataLoss + `matches .message update_mask
is .ResourceInfo.resourceName $pol
GET $L/policies
ids .policies other
is .unreachable ["$pol"]
GET $P/locations/-/policies?filter=display_name = none
absent .policies
is .unreachable ["$pol"]`)
	damagedPolicyIsKept(r)
	damagedPolicyIsReplaced(r)
	damagedPolicyIsRolledBack(r)
}

// damagedPolicyIsKept: what belongs to it is read, and nothing takes its place or is made
// of it by accident.
func damagedPolicyIsKept(r *row) {
	r.do(`
GET $EXP
is .etag $E
GET $POL/experiments
count .policyExperiments 1
absent .unreachable
GET $POL/revisions
count .policyRevisions 1

POST $L/policies?policyId=web {}
error 409 ALREADY_EXISTS
PATCH $POL {"displayName":"x"}` + dataLoss + `
POST $EXP:commit {"etag":$E}` + dataLoss + `
POST $POL/experiments?policyExperimentId=e2 {"policy":{"name":"$pol"}}` + dataLoss + `
PATCH $L/config {"nextLocation":"$p/locations/l2"}
POST $L/policies:promote {"destination":"$p/locations/l2","policies":[{"revision":"$LIVE.revision"}]}` + dataLoss + `
PROMOTE $l other
OP PromotePoliciesResponse`)
}

// damagedPolicyIsReplaced: as a whole, under the etag that it had. It keeps its experiments
// and revisions.
func damagedPolicyIsReplaced(r *row) {
	r.do(`
PATCH $POL?updateMask=* {"rules":RULES_B,"etag":"x"}
error 409 ABORTED ETAG_MISMATCH
PATCH $POL?updateMask=*&validateOnly=true {"rules":RULES_B}
GET $POL` + dataLoss + `
PATCH $POL?updateMask=* {"rules":RULES_B,"etag":"$LIVE.etag"}
OP Policy
has .uid
not .uid $LIVE.uid
TRAFFIC POST 200
GET $EXP
is .etag $E
GET $POL/revisions
count .policyRevisions 2`)
}

// damagedPolicyIsRolledBack: a rollback brings back what it was, its identity included.
func damagedPolicyIsRolledBack(r *row) {
	r.spoil("$pol")
	r.do(`
POST /v1/$LIVE.revision:rollback {}
OP Policy
is .uid $LIVE.uid
is .etag $LIVE.etag
TRAFFIC GET 200
GET $L/nodes
absent .nodes[0].error`)
}

func damagedExperiment(r *row) {
	r.do("POST $POL/experiments?policyExperimentId=e3 {\"policy\":{\"name\":\"$pol\",\"rules\":RULES_B}}\nOP PolicyExperiment")
	r.spoil("$exp")
	r.do(`
GET $EXP` + dataLoss + `
GET $POL/experiments
ids .policyExperiments e3
is .unreachable ["$exp"]
POST $EXP:startPreview {}` + dataLoss + `
POST $EXP:commit {"etag":$E}` + dataLoss + `
PATCH $EXP {"displayName":"x"}` + dataLoss + `
POST $POL/experiments?policyExperimentId=e1 {"policy":{"name":"$pol"}}
error 409 ALREADY_EXISTS

# A change of its policy is applied, and done.
PATCH $POL {"displayName":"changed"}
OP Policy
TRAFFIC GET 200
PATCH $EXP?updateMask=* {"policy":{"name":"$pol","rules":RULES_B}}
OP PolicyExperiment
GET $EXP
has .uid`)
	r.spoil("$exp")
	r.do(`
DELETE $EXP
OP PolicyExperiment
is .name $exp
GET $EXP
error 404
GET $POL/experiments
absent .unreachable`)
}

func damagedRevision(r *row) {
	r.do("GET $POL/revisions\nN = .policyRevisions\nGET $POL\nREV = .revision\nPATCH $POL {\"displayName\":\"later\"}\nOP Policy\nLATER = .revision")
	r.spoil("$REV")
	r.do(`
GET /v1/$REV` + dataLoss + `
GET $POL/revisions
is .unreachable ["$REV"]
is .policyRevisions[0].name $LATER
GET $POL/revisions/latest
is .name $LATER
POST /v1/$REV:rollback {}` + dataLoss + `
# It is stored anew when its content becomes live again.
PATCH $POL {"displayName":"changed"}
OP Policy
is .revision $REV
GET /v1/$REV
has .snapshot`)
}

func damagedOperation(r *row) {
	r.do("PATCH $POL {\"displayName\":\"for its operation\"}\nOPERATION = .name")
	r.spoil("$OPERATION")
	r.do(`
GET /v1/$OPERATION` + dataLoss + `
GET $L/operations
is .unreachable ["$OPERATION"]
DELETE /v1/$OPERATION
GET /v1/$OPERATION
error 404
GET $L/operations
absent .unreachable`)
}

func damagedConfig(r *row) {
	r.spoil("$l/config")
	r.do(`
GET $L/config` + dataLoss + `
PATCH $L/config {"nextLocation":"$p/locations/l2"}` + dataLoss + `
PATCH $L/config?updateMask=* {}
absent .nextLocation
GET $L/config
absent .nextLocation`)
}

// damagedAndDeleted deletes policies that cannot be read: that is for good, at once.
func damagedAndDeleted(r *row) {
	r.spoil("$pol")
	r.do(`
DELETE $POL?etag=x
error 409 ABORTED ETAG_MISMATCH
DELETE $POL
OP Policy
has .deleteTime
GET $POL
error 404
GET $L/policies?showDeleted=true
ids .policies other
absent .unreachable
TRAFFIC GET 403
POST $L/policies?policyId=web {"rules":RULES_A}
OP Policy
TRAFFIC GET 200
GET $POL/revisions
count .policyRevisions 1

# One that was deleted before is as good as gone.
DELETE $POL
OP Policy`)
	r.spoil("$pol")
	r.do(`
TRAFFIC GET 403
GET $L/policies
absent .unreachable
GET $L/policies?showDeleted=true
is .unreachable ["$pol"]
POST $POL:undelete {}` + dataLoss + `
PATCH $POL?updateMask=* {}
error 400 FAILED_PRECONDITION POLICY_DELETED
DELETE $POL
OP Policy
POST $L/policies?policyId=web {"rules":RULES_A}
OP Policy
TRAFFIC GET 200`)
}
