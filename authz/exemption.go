package authz

import (
	"strings"

	adminpb "understudy/admin/v1"
)

// Project is a tenant of the cloud that a request is made for. What is empty is not
// known.
type Project struct {
	ID string
	// Name and Domain, the name of its domain, name a project together.
	Name, Domain string
}

// The keys of a reservation's context that name its project.
const (
	contextProjectID   = "project_id"
	contextProjectName = "project_name"
	contextDomainName  = "project_domain_name"
)

// exemption is a project that no rule of a policy applies to: by its ID, or by its
// name and domain.
type exemption Project

// Exemptions are the projects that no rule of a policy applies to. They are immutable.
type Exemptions []exemption

// NewExemptions returns the exemptions of a policy.
func NewExemptions(p *adminpb.Policy) Exemptions { return newExemptions(p.GetExemptedProjects()) }

// Cover reports whether no rule applies to a request.
func (e Exemptions) Cover(r *Request) bool {
	if len(e) == 0 {
		return false
	}
	project := r.tenant()
	for _, one := range e {
		if one.covers(project) {
			return true
		}
	}
	return false
}

// Decision is that on a request which they cover.
func (Exemptions) Decision() Decision {
	return Decision{Effect: Allow, Plain: true, Value: true, exempt: true}
}

// newExemptions reads the texts of a policy: an ID, or name@domain. The last @ is before
// the domain, for a project may be named like an address of mail.
func newExemptions(texts []string) Exemptions {
	var out []exemption
	for _, text := range texts {
		if at := strings.LastIndexByte(text, '@'); at >= 0 {
			out = append(out, exemption{Name: text[:at], Domain: text[at+1:]})
			continue
		}
		out = append(out, exemption{ID: text})
	}
	return out
}

// covers reports whether the exemption is for a project. A name without its domain
// says nothing: another domain may have the same.
func (e exemption) covers(p Project) bool {
	if e.ID != "" {
		return e.ID == p.ID
	}
	return e.Name != "" && e.Domain != "" && e.Name == p.Name && e.Domain == p.Domain
}

// Exempts reports whether no rule applies to a request.
func (p *Policy) Exempts(r *Request) bool {
	return p != nil && p.exempted.Cover(r)
}

// tenant returns the project that a request is made for.
func (r *Request) tenant() Project {
	if r.Reservation == nil {
		return r.Project
	}
	text := func(key string) string {
		t, _ := r.Reservation.Context[key].(string)
		return t
	}
	id := r.Reservation.Project
	if id == "" {
		id = text(contextProjectID)
	}
	return Project{ID: id, Name: text(contextProjectName), Domain: text(contextDomainName)}
}
