package policyfile

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/authz"
)

// permissions decide what the sender of one call may, by the rows of its route.
type permissions struct {
	authorizer access.Authorizer
	project    string
	route      string
	// names are those in the path, as they were sent: a name that is malformed is refused
	// after it was found that the sender may.
	names map[string]string
}

// check returns 403 if something is missing that can be seen from the path alone, before
// anything is read.
func (p *permissions) check(ctx context.Context) error {
	if p.authorizer == nil {
		return nil
	}
	rows, known := needs[p.route]
	if !known {
		return problem(http.StatusForbidden, "the permissions of this call are not known").
			because(apierror.PermissionDenied(apierror.Permission(p.route), "projects/"+p.project))
	}
	for _, n := range rows {
		if resource, known := n.resource(p.project, p.names); known {
			if err := p.ask(ctx, n, resource); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFound is check of the rows that depend on a name that the call has found out.
func (p *permissions) checkFound(ctx context.Context, variable, value string) error {
	if p.authorizer == nil {
		return nil
	}
	values := maps.Clone(p.names)
	values[variable] = value
	for _, n := range needs[p.route] {
		if resource, known := n.resource(p.project, values); known && n.has(variable) {
			if err := p.ask(ctx, n, resource); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether the sender has a permission on the project.
func (p *permissions) has(ctx context.Context, permission access.Permission) (bool, error) {
	if p.authorizer == nil {
		return true, nil
	}
	granted, err := p.authorizer.Permitted(ctx, "projects/"+p.project, []access.Permission{permission})
	return len(granted) > 0, err
}

// ask asks for one permission.
func (p *permissions) ask(ctx context.Context, n need, resource string) error {
	return n.refused(p.authorizer.Authorize(ctx, n.permission, resource))
}

// refused gives PERMISSION_DENIED the text of Chef's server. The second text says what is
// missing here, and on what.
func (n need) refused(err error) error {
	if status.Code(err) == codes.PermissionDenied {
		return &Problem{Status: http.StatusForbidden, Texts: []string{"missing " + n.chef + " permission", status.Convert(err).Message()}, cause: err}
	}
	return err
}

// mayPromote checks what is not in the path of a promotion: the next group, and each policy,
// all that are active if none are named. With a body that names them wrongly it checks the
// container of the names: 403 comes before 400, and before 404. What is promoted in the end
// is found out later, and checked then.
func (c *call) mayPromote(policies []authz.PolicyID, malformed bool) error {
	if c.permissions.authorizer == nil {
		return nil
	}
	g, err := c.library.Group(c.context, c.group())
	if err != nil && status.Code(err) != codes.NotFound {
		return err
	}
	if g.Next != "" {
		if err := c.permissions.checkFound(c.context, ":next", string(g.Next)); err != nil {
			return err
		}
	}
	switch {
	case malformed:
		policies = []authz.PolicyID{""}
	case policies == nil:
		policies = slices.Sorted(maps.Keys(g.Active))
	}
	for _, policy := range policies {
		if err := c.promotable(policy); err != nil {
			return err
		}
	}
	return nil
}

// promotable returns PERMISSION_DENIED if the sender may not promote a policy of this name.
func (c *call) promotable(policy authz.PolicyID) error {
	return c.permissions.checkFound(c.context, ":each", string(policy))
}
