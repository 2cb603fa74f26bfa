package iam

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"

	"understudy/admin/access"
	"understudy/admin/apierror"
)

const (
	// version is the schema of the policies that are returned: bindings without conditions.
	version = 1
	// maxBindings and maxMembers bound a policy: the bindings of a call, and the members of
	// all of them, each counted as often as it stands there.
	//
	// 1,500 members are what Google's IAM takes, too.
	maxBindings = 100
	maxMembers  = 1500
	// maxTested is the number of permissions that one call of testIamPermissions may name.
	maxTested = 100
)

// wantedPolicy is what a call of setIamPolicy asks for.
type wantedPolicy struct {
	// etag is that of the bindings that the caller has read, as text; empty means any.
	etag string
	// replaces is false if the update mask leaves the bindings out.
	replaces bool
	// bindings are in canonical form.
	bindings []*iampb.Binding
}

// parsePolicy checks a call of setIamPolicy.
func parsePolicy(r *iampb.SetIamPolicyRequest) (*wantedPolicy, error) {
	policy := r.GetPolicy()
	if policy == nil {
		return nil, apierror.Required("policy", "It may be empty: {} takes all bindings away.")
	}
	if err := checkVersion("policy.version", policy.GetVersion()); err != nil {
		return nil, err
	}
	if len(policy.GetAuditConfigs()) > 0 {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, "policy.audit_configs",
			"Audit is not configured by resource. Leave the field out.")
	}
	// google.iam.v1: without a mask bindings and etag are replaced.
	wanted := &wantedPolicy{replaces: r.GetUpdateMask() == nil}
	if etag := policy.GetEtag(); len(etag) > 0 {
		wanted.etag = base64.StdEncoding.EncodeToString(etag)
	}
	for _, path := range r.GetUpdateMask().GetPaths() {
		switch path {
		case "bindings", "*":
			wanted.replaces = true
		case "etag", "version":
		default:
			return nil, apierror.Invalid(apierror.ReasonInvalidUpdateMask, "update_mask",
				"The path "+apierror.Shown(path)+" is none of a policy's that can be set. The paths are bindings and etag; without a mask, both.")
		}
	}
	var err error
	wanted.bindings, err = parseBindings(policy.GetBindings())
	return wanted, err
}

// checkVersion checks the version of a schema, of which a client may name any that there
// is: it is about conditions, which no policy has.
func checkVersion(field apierror.Field, given int32) error {
	if given == 0 || given == 1 || given == 3 {
		return nil
	}
	return apierror.Invalid(apierror.ReasonInvalidField, field, "The versions are 0, 1 and 3. Leave the field out.")
}

// parseBindings checks bindings and returns them in canonical form: one binding of a role,
// roles and members sorted, each once, and none without members.
func parseBindings(given []*iampb.Binding) ([]*iampb.Binding, error) {
	if len(given) > maxBindings {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, "policy.bindings",
			fmt.Sprintf("There are more than %d bindings. Put the members of a role into one binding.", maxBindings))
	}
	members, count := make(map[string][]string), 0
	for i, b := range given {
		field := apierror.Field(fmt.Sprintf("policy.bindings[%d]", i))
		if err := checkBinding(field, b); err != nil {
			return nil, err
		}
		if count += len(b.GetMembers()); count > maxMembers {
			return nil, apierror.Invalid(apierror.ReasonInvalidField, field+".members",
				fmt.Sprintf("The bindings have more than %d members. Bind groups in their place, as group:ISSUER#NAME.", maxMembers))
		}
		members[b.GetRole()] = append(members[b.GetRole()], b.GetMembers()...)
	}
	var out []*iampb.Binding
	for _, role := range slices.Sorted(maps.Keys(members)) {
		slices.Sort(members[role])
		if distinct := slices.Compact(members[role]); len(distinct) > 0 {
			out = append(out, &iampb.Binding{Role: role, Members: distinct})
		}
	}
	return out, nil
}

// checkBinding checks one binding, whose members are not yet counted.
func checkBinding(field apierror.Field, b *iampb.Binding) error {
	if b.GetCondition() != nil {
		return apierror.Invalid(apierror.ReasonInvalidField, field+".condition",
			"Conditions are not supported: a binding holds always. Leave the condition out, and bind on the location or the policy that is meant.")
	}
	if access.Role(b.GetRole()).Permissions() == nil {
		return apierror.Invalid(apierror.ReasonInvalidField, field+".role", "There is no such role. The roles are "+roles()+".")
	}
	for i, member := range b.GetMembers()[:min(len(b.GetMembers()), maxMembers)] {
		if err := access.CheckMember(member); err != nil {
			return apierror.Invalid(apierror.ReasonInvalidField, apierror.Field(fmt.Sprintf("%s.members[%d]", field, i)), "The member is not valid: "+err.Error()+".")
		}
	}
	return nil
}

// roles are the names of all roles, as an error lists them.
func roles() string {
	var names []string
	for _, r := range access.Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}
