package policyfile

import (
	"encoding/json"
	"fmt"
	"net/http"

	"understudy/admin/library"
	"understudy/authz"
)

// getActive is all that a client needs to do its work.
func getActive(c *call) (*reply, error) {
	lock, err := c.library.Active(c.context, c.group(), c.policy())
	if err != nil {
		return nil, orMissing(err, c.notActive())
	}
	return c.reply(http.StatusOK, lock)
}

// putActive makes the lock in the body active, or the stored one if its revision is
// known.
func putActive(c *call) (*reply, error) {
	lock, err := c.lock()
	if err != nil {
		return nil, err
	}
	active, err := c.library.Put(c.context, c.group(), lock, c.noOp())
	if err != nil {
		return nil, orNoOp(err, c.group(), c.policy())
	}
	return c.activated(active)
}

// activate makes a known revision active.
func activate(c *call) (*reply, error) {
	id, err := c.revisionID()
	if err != nil {
		return nil, err
	}
	active, err := c.library.Activate(c.context, c.group(), c.policy(), id, c.noOp())
	if err != nil {
		return nil, orMissing(orNoOp(err, c.group(), c.policy()), fmt.Sprintf("Cannot load revision %s of policy %s", id, c.policy()))
	}
	return c.activated(active)
}

// activated answers 201 if the group had no revision of the policy before.
func (c *call) activated(a library.Activation) (*reply, error) {
	status := http.StatusOK
	if a.Created {
		status = http.StatusCreated
	}
	answer, err := c.reply(status, a.Lock)
	if err == nil {
		answer.header.Set(OperationHeader, a.Operation)
	}
	return answer, err
}

// revisionID reads {"revision_id":ID}; other fields mean nothing.
func (c *call) revisionID() (library.RevisionID, error) {
	fields, err := members(c.body)
	if err != nil {
		return "", invalid("invalid JSON")
	}
	for _, f := range fields {
		if f.name == "revision_id" {
			return readID(f.value)
		}
	}
	return "", invalid("Field 'revision_id' missing")
}

// readID holds an ID to the grammar of those in a document, for it becomes a part of
// paths.
func readID(value json.RawMessage) (library.RevisionID, error) {
	id, ok := text(value)
	if !ok || !validRevision(id) {
		return "", invalidField("revision_id")
	}
	return library.RevisionID(id), nil
}

// deactivate answers with the lock that was active, so that a client can put it back.
func deactivate(c *call) (*reply, error) {
	lock, err := c.library.Deactivate(c.context, c.group(), c.policy())
	if err != nil {
		return nil, orMissing(err, c.notActive())
	}
	return c.reply(http.StatusOK, lock)
}

// notActive is the text of Chef's server for a policy that is not active in a group.
func (c *call) notActive() string {
	return fmt.Sprintf("Cannot load policy %s in policy group %s", c.policy(), c.group())
}

// AllowNoOp is the parameter of a call that may put a lock of which nothing can be
// enforced in the place of one that is enforced. Its value is true.
const AllowNoOp = "allow_no_op"

// noOp is true only if the caller says so in full: any other value means no.
func (c *call) noOp() library.NoOp { return library.NoOp(c.query.Get(AllowNoOp) == "true") }

// orNoOp adds to the error of a lock that enforces nothing, and would take the place of one
// that does in a group, how that is done on purpose. chef-cli can neither add a query nor take one
// policy out of one group.
func orNoOp(err error, group library.GroupID, policy authz.PolicyID) error {
	if !library.IsNoOp(err) {
		return err
	}
	return problem(http.StatusConflict, fmt.Sprintf(
		"Nothing of the new revision of policy %[1]s can be enforced, and it would replace one in policy group %[3]s that is: all requests for %[1]s would get the "+
			"default decision there. If that is what you want, add ?%[2]s=true to this call (understudy push --allow-no-op does), or DELETE /policy_groups/%[3]s/policies/%[1]s first. "+
			"With chef-cli: `chef delete-policy %[1]s` takes the policy out of all policy groups, then push again; `chef undelete` takes that back",
		policy, AllowNoOp, group)).because(err)
}
