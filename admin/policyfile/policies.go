package policyfile

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/library"
)

// empty is the {} that stands for a revision in a list.
type empty struct{}

// revisionList is {"revisions":{ID:{}}}. Without revisions Chef's server says {}.
func revisionList(ids []library.RevisionID) map[string]any {
	out := map[string]any{}
	if revisions := revisionSet(ids); len(revisions) > 0 {
		out["revisions"] = revisions
	}
	return out
}

// revisionSet is a set as Chef writes it: an object of empty objects.
func revisionSet(ids []library.RevisionID) map[string]empty {
	out := make(map[string]empty)
	for _, id := range ids {
		out[string(id)] = empty{}
	}
	return out
}

// listPolicies leaves out a policy without revisions, as Chef's server does.
func listPolicies(c *call) (*reply, error) {
	policies, err := c.library.Policies(c.context)
	if err != nil {
		return nil, err
	}
	type entry struct {
		URI       string           `json:"uri"`
		Revisions map[string]empty `json:"revisions"`
	}
	out := make(map[string]entry)
	for name, revisions := range policies {
		if len(revisions) > 0 {
			out[string(name)] = entry{c.uri("policies", string(name)), revisionSet(revisions)}
		}
	}
	return &reply{status: http.StatusOK, value: out}, nil
}

// getPolicy lists the revisions of a policy, under two paths: that of Chef's server, and
// that of RFC-042 with /revisions.
func getPolicy(c *call) (*reply, error) {
	revisions, err := c.library.Policy(c.context, c.policy())
	if err != nil {
		return nil, orMissing(err, c.noPolicy())
	}
	return &reply{status: http.StatusOK, value: revisionList(revisions)}, nil
}

// deletePolicy removes all documents and takes the policy out of all groups, in one step;
// it answers with the revisions that there were. What ends in a group needs the permission
// there.
func deletePolicy(c *call) (*reply, error) {
	revisions, err := c.library.RemovePolicy(c.context, c.policy(), c.removable)
	if err != nil {
		return nil, orMissing(err, c.noPolicy())
	}
	return &reply{status: http.StatusOK, value: revisionList(revisions)}, nil
}

// createRevision stores a lock that nothing enforces by that.
func createRevision(c *call) (*reply, error) {
	lock, err := c.lock()
	if err != nil {
		return nil, err
	}
	err = c.library.Add(c.context, lock)
	if status.Code(err) == codes.AlreadyExists {
		return nil, problem(http.StatusConflict, fmt.Sprintf("Revision %s of policy %s already exists", lock.Revision, lock.Policy)).because(err)
	}
	if err != nil {
		return nil, err
	}
	answer, err := c.reply(http.StatusCreated, lock)
	if err == nil {
		answer.header.Set("Location", c.uri("policies", string(lock.Policy), "revisions", string(lock.Revision)))
	}
	return answer, err
}

// lock reads the body as a lock of the policy in the path.
func (c *call) lock() (library.Lock, error) {
	parsed, err := c.format.parse(c.body)
	if err != nil {
		return library.Lock{}, err
	}
	if name := string(c.policy()); parsed.Name != name {
		return library.Lock{}, invalid(fmt.Sprintf("Field 'name' invalid : %s does not match %s", name, parsed.Name))
	}
	return library.Lock{Policy: c.policy(), Revision: library.RevisionID(parsed.RevisionID), Document: c.body}, nil
}

// getRevision adds to the document the groups in which it is active. All else of it stays
// as it was written, so its hash can be checked.
func getRevision(c *call) (*reply, error) {
	lock, groups, err := c.library.Revision(c.context, c.policy(), c.revision())
	if err != nil {
		return nil, orMissing(err, c.noRevision())
	}
	answer, err := c.reply(http.StatusOK, lock)
	if err != nil {
		return nil, err
	}
	answer.document, err = withMember(answer.document, "policy_group_list", groups)
	return answer, err
}

// deleteRevision refuses to take what is active away (Chef's server takes it).
func deleteRevision(c *call) (*reply, error) {
	lock, err := c.library.RemoveRevision(c.context, c.policy(), c.revision())
	if status.Code(err) == codes.FailedPrecondition {
		return nil, problem(http.StatusConflict, fmt.Sprintf(
			"Revision %s of policy %s is active in a policy group", c.revision(), c.policy())).because(err)
	}
	if err != nil {
		return nil, orMissing(err, c.noRevision())
	}
	return c.reply(http.StatusOK, lock)
}

// listGroupsOfRevision is the part of getRevision that RFC-042 has a path of its own for.
func listGroupsOfRevision(c *call) (*reply, error) {
	_, groups, err := c.library.Revision(c.context, c.policy(), c.revision())
	if err != nil {
		return nil, orMissing(err, c.noRevision())
	}
	return &reply{status: http.StatusOK, value: groups}, nil
}

// reply is the answer with a lock, byte for byte as it was stored.
func (c *call) reply(status int, lock library.Lock) (*reply, error) {
	document := lock.Document
	if document == nil {
		packages, err := c.library.Packages(c.context, lock)
		if err != nil {
			return nil, err
		}
		if document, err = describe(lock, packages); err != nil {
			return nil, err
		}
	}
	return &reply{status: status, document: document, header: http.Header{
		EnforcementHeader: {c.format.enforcement(lock)},
	}}, nil
}

// Headers beyond RFC-042.
const (
	// EnforcementHeader says whether sidecars enforce a lock, and if not, why.
	EnforcementHeader = "Understudy-Enforcement"
	// OperationHeader names the operation of the other API that is done when every
	// live sidecar of the group has applied the lock.
	OperationHeader = "Understudy-Operation"
)

// noPolicy is the text of Chef's server.
func (c *call) noPolicy() string { return fmt.Sprintf("Cannot load policy %s", c.policy()) }

// noRevision is the text of Chef's server.
func (c *call) noRevision() string {
	return fmt.Sprintf("Cannot load revision %s of policy %s", c.revision(), c.policy())
}
