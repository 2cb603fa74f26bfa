package authz

import "strings"

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

// newExemptions reads the texts of a policy: an ID, or name@domain. The last @ is before
// the domain, for a project may be named like an address of mail.
func newExemptions(texts []string) []exemption {
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
	if p == nil || len(p.exempted) == 0 {
		return false
	}
	project := r.tenant()
	for _, e := range p.exempted {
		if e.covers(project) {
			return true
		}
	}
	return false
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
