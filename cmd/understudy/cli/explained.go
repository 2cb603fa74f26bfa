package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// Explained is why a policy decided one request as it did, for people and as JSON.
//
// The names of its fields are part of the output.
type Explained struct {
	// DecisionID and Time are of the decision that a log has.
	DecisionID string `json:"decisionId,omitempty"`
	Time       string `json:"time,omitempty"`
	// Policy is where the policy comes from: its name, or a file. Etag is that of its content.
	Policy string `json:"policy"`
	Etag   string `json:"etag,omitempty"`
	// Result is ALLOW, DENY or ERROR.
	Result string `json:"result,omitempty"`
	// Rule is the ID of the rule that denied, and Path the Rego rule that decided.
	Rule   string `json:"rule,omitempty"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Because are the expressions that decided, the decisive one first.
	Because []Decisive `json:"because"`
	// NotExplained is why the request could not be decided again.
	NotExplained string `json:"notExplained,omitempty"`
	// Notes are what limits the explanation.
	Notes []string `json:"notes,omitempty"`
}

// Decisive is an expression of a policy.
type Decisive struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Print prints the explanation as people read it.
//
// All of it can be text of a policy or of a log, so it is escaped.
func (e *Explained) Print(w io.Writer) error {
	var b strings.Builder
	by := "the policy " + e.Policy
	if e.Etag != "" {
		by += ", etag " + e.Etag
	}
	switch {
	case e.NotExplained != "":
		fmt.Fprintf(&b, "not explained: %s\n  policy: %s\n", terminal.Line(e.NotExplained), terminal.Line(by))
	default:
		fmt.Fprintf(&b, "%s by %s\n", e.Result, terminal.Line(by))
	}
	for _, line := range [][2]string{{"rule", e.Rule}, {"asked", e.Path}, {"reason", e.Reason}, {"decided", e.Time}} {
		if line[1] != "" {
			fmt.Fprintf(&b, "  %s: %s\n", line[0], terminal.Line(line[1]))
		}
	}
	if len(e.Because) > 0 {
		fmt.Fprintln(&b, "because of")
	}
	for _, x := range e.Because {
		fmt.Fprintf(&b, "  %s:%d  %s\n", terminal.Line(x.File), x.Line, terminal.Line(x.Text))
	}
	for _, n := range e.Notes {
		fmt.Fprintf(&b, "note: %s\n", terminal.Line(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// PolicyOf reads the policy of a whole name in the version of an etag: the live policy, or a revision. Without an etag
// it is the live policy. It reports false if the version is not kept any more; the live policy is returned then. The
// client has to be connected.
func (c *Client) PolicyOf(ctx context.Context, name authz.PolicyName, etag string) (policy *adminpb.Policy, found bool, err error) {
	live, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: string(name)})
	if err != nil {
		return nil, false, c.explained(ctx, c.unanswered(err))
	}
	if etag == "" || live.Etag == etag {
		return live, true, nil
	}
	revisions, err := c.readRevisions(ctx, string(name), "")
	if err != nil {
		return nil, false, c.explained(ctx, c.unanswered(err))
	}
	for _, r := range revisions {
		if r.Snapshot.GetEtag() == etag {
			// A list has no modules.
			whole, err := c.policies.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: r.Name})
			return whole.GetSnapshot(), true, c.explained(ctx, c.unanswered(err))
		}
	}
	return live, false, nil
}

// defaultPolicy returns the policy that decides requests which name none: that of all sidecars of the location.
func (c *Client) defaultPolicy(ctx context.Context) (authz.PolicyName, error) {
	nodes, err := all(func(token string) ([]*adminpb.Node, string, error) {
		page, err := c.policies.ListNodes(ctx, &adminpb.ListNodesRequest{Parent: c.location, PageToken: token, PageSize: 1000})
		return page.GetNodes(), page.GetNextPageToken(), err
	})
	if err != nil {
		return "", c.explained(ctx, c.unanswered(err))
	}
	name := ""
	for _, n := range nodes {
		switch {
		case n.DefaultPolicy == "" || n.DefaultPolicy == name:
		case name != "":
			return "", errors.New("the request names no policy, and the sidecars of " + c.location + " have several default policies: name one with --policy")
		default:
			name = n.DefaultPolicy
		}
	}
	if name == "" {
		return "", errors.New("the request names no policy, and no sidecar of " + c.location + " has a default policy: name one with --policy, or the location of the sidecar with --location")
	}
	return authz.PolicyName(name), nil
}
