package admin_test

import (
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
)

func init() { rows["B-120"] = dataHasADepth }

// nested returns data of n objects or lists in each other, itself counted.
func nested(n int, open, innermost, shut string) string {
	return `{"x":` + strings.Repeat(open, n-2) + innermost + strings.Repeat(shut, n-2) + `}`
}

// dataHasADepth sends data of the greatest depth, and of one more, by every way in.
func dataHasADepth(r *row) {
	const tooDeep = "error 400 INVALID_ARGUMENT INVALID_FIELD\n"
	r.variables["FITS"], r.variables["DEEP"] = r.value(nested(32, `{"k":`, "{}", "}")), r.value(nested(33, `{"k":`, "{}", "}"))
	r.variables["LISTS"] = r.value(nested(33, "[", "[]", "]"))
	path := ".data.x" + strings.Repeat(".k", 31)
	lists := ".data.x" + strings.Repeat(`[0]`, 31)
	r.do(`
POST $L/policies?policyId=a {"data":$FITS}
OP Policy
POST $L/policies?policyId=b&validateOnly=true {"data":$DEEP}
` + tooDeep + `violation policy` + path + ` ~ nested deeper than 32
POST $L/policies?policyId=b {"data":$LISTS}
` + tooDeep + `violation policy` + lists + ` ~ nested deeper than 32
GET $L/policies/b
error 404
PATCH $L/policies/c?allowMissing=true {"data":$DEEP}
` + tooDeep + `violation policy` + path + ` ~ nested deeper than 32
PATCH $POL {"data":$DEEP}
` + tooDeep + `PATCH $POL?updateMask=data&validateOnly=true {"data":$DEEP}
` + tooDeep + `PATCH $POL {"data":$FITS}
OP Policy
POST $POL/experiments?policyExperimentId=e2 {"policy":{"name":"$pol","data":$DEEP}}
` + tooDeep + `violation policy_experiment.policy` + path + ` ~ nested deeper than 32
PATCH $EXP?updateMask=policy.data {"policy":{"name":"$pol","data":$DEEP}}
` + tooDeep + `violation policy_experiment.policy` + path + ` ~ nested deeper than 32`)
	storedDepthStays(r)
}

// storedDepthStays finds data deeper than that where an earlier version stored it.
func storedDepthStays(r *row) {
	data := &structpb.Struct{}
	if err := data.UnmarshalJSON([]byte(nested(40, `{"k":`, "{}", "}"))); err != nil {
		r.Fatal(err)
	}
	r.do("GET $POL\nBEFORE = .revision\nnode n1")
	plant(r, r.path("$pol"), &adminpb.Policy{}, func(p *adminpb.Policy) { p.Data = data })
	plant(r, r.path("$exp"), &adminpb.PolicyExperiment{}, func(e *adminpb.PolicyExperiment) {
		e.Policy.Data = data
		e.Policy.Data.Fields["y"] = structpb.NewBoolValue(true)
	})
	r.do(`
TRAFFIC GET 200
TRAFFIC POST 403
PATCH $POL {"displayName":"still deep"}
OP Policy
DEEPER = .revision
has .data.x.k.k
PATCH $EXP {"displayName":"still deep"}
OP PolicyExperiment
E = .etag

# Nothing of it becomes live anywhere else.
POST $EXP:commit {"etag":$E}
error 400 INVALID_ARGUMENT INVALID_FIELD
PATCH $L/config {"nextLocation":"$p/locations/l2"}
PROMOTE $l web
error 400 INVALID_ARGUMENT INVALID_FIELD
matches .BadRequest.fieldViolations[0].field ^policies."web"..data.x

POST /v1/$BEFORE:rollback {}
OP Policy
POST /v1/$DEEPER:rollback {}
OP Policy
TRAFFIC GET 200
DELETE $EXP
OP PolicyExperiment
DELETE $POL
OP Policy
POST $POL:undelete {}
OP Policy
TRAFFIC GET 200`)
}
