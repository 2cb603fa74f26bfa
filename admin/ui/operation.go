package ui

import (
	"net/http"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/rpc/status"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// progress is an operation as the page shows it.
type progress struct {
	*adminpb.OperationMetadata
	Name string
	Done bool
	// Error is why a sidecar could not apply it.
	Error *status.Status
	// What says what it does, Policy and Revision what it is about; they are empty where
	// there is none.
	What, Policy, Revision string
	// See is where the result is.
	See link
}

// verbs :: verb → what is done, in words.
var verbs = map[string]string{
	"create": "Creation", "update": "Change", "delete": "Deletion", "undelete": "Restoration", "startPreview": "Start of the preview",
	"stopPreview": "End of the preview", "commit": "Commit", "rollback": "Rollback", "promote": "Promotion",
}

// operation is the view of an operation: until every live sidecar has applied the change.
func (u *UI) operation(r *http.Request) (*view, error) {
	name := operationNamed(r)
	op, err := u.config.Services.GetOperation(r.Context(), &longrunningpb.GetOperationRequest{Name: name})
	if err != nil {
		return nil, err
	}
	p := progressOf(op)
	return &view{
		Title: p.What + " of " + p.Subject(), Kicker: "Operation", Crumbs: crumbs(name), Location: locationOf(name), Tab: "policies",
		Parts: []part{{ID: "operation", Page: "operation", Data: p}},
	}, nil
}

// progressOf is that of an operation.
func progressOf(op *longrunningpb.Operation) progress {
	p := progress{OperationMetadata: &adminpb.OperationMetadata{}, Name: op.Name, Done: op.Done, Error: op.GetError()}
	m, err := op.GetMetadata().UnmarshalNew()
	if err == nil {
		switch m := m.(type) {
		case *adminpb.OperationMetadata:
			p.OperationMetadata = m
		case *adminpb.CommitPolicyExperimentMetadata:
			p.OperationMetadata, p.Revision = m.Operation, m.Revision
		case interface {
			GetOperation() *adminpb.OperationMetadata
		}:
			p.OperationMetadata = m.GetOperation()
		}
	}
	if p.What = verbs[p.Verb]; p.What == "" {
		p.What = "Operation"
	}
	p.see()
	return p
}

// see finds where the result is: a commit ends its experiment.
func (p *progress) see() {
	p.Policy = policyOf(p.Target)
	switch {
	case authz.ResourceName(p.Target).Experiment() != "" && p.Verb != "commit" && p.Verb != "delete":
		p.See = link{"Experiment " + id(p.Target), address(p.Target)}
	case p.Policy != "":
		p.See = link{"Policy " + id(p.Policy), address(p.Policy)}
	default:
		p.See = link{"Policies of " + id(locationOf(p.Name)), address(locationOf(p.Name))}
	}
}

// Subject is what the operation is about, in a word or two.
func (p progress) Subject() string {
	if target := authz.ResourceName(p.Target); target.Experiment() != "" {
		return target.Short()
	}
	return id(p.Target)
}
