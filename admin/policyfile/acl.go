package policyfile

import "net/http"

// permissions are those of Chef's server.
var permissions = []string{"create", "read", "update", "delete", "grant"}

// openACL is the access control list of everything, until there are permissions:
// nobody is named, and whoever reaches the port may.
func openACL() map[string]any {
	type actors struct {
		Actors []string `json:"actors"`
		Groups []string `json:"groups"`
	}
	out := make(map[string]any)
	for _, p := range permissions {
		out[p] = actors{[]string{}, []string{}}
	}
	return out
}

// getGroupACL is the list of a group that is there. Of one that is not, it is 404, as
// every path below it.
func getGroupACL(c *call) (*reply, error) {
	if _, err := c.library.Group(c.context, c.group()); err != nil {
		return nil, orMissing(err, c.noGroup())
	}
	return &reply{status: http.StatusOK, value: openACL()}, nil
}

// getPolicyACL is getGroupACL of a policy.
func getPolicyACL(c *call) (*reply, error) {
	if _, err := c.library.Policy(c.context, c.policy()); err != nil {
		return nil, orMissing(err, c.noPolicy())
	}
	return &reply{status: http.StatusOK, value: openACL()}, nil
}
