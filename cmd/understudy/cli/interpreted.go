package cli

import (
	"context"
	"fmt"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// noteInterpreted says which forms make OPA's interpreter evaluate a policy. It is found out
// here, by the same code as a sidecar's. What does not compile was refused by the server, which said why.
//
// It is a note about speed. What the policy decides is the same.
func (c *Client) noteInterpreted(ctx context.Context, p *adminpb.Policy) {
	compiled, err := authz.Compile(ctx, p)
	if err != nil {
		return
	}
	var places []string
	for _, cause := range compiled.Interpreted() {
		places = append(places, fmt.Sprintf("%s (%s:%d)", cause.What, cause.File, cause.Row))
	}
	if len(places) > 0 {
		fmt.Fprintf(c.Err, "note: requests that come to %s are evaluated by OPA's interpreter, which takes several times as long\n",
			terminal.Line(strings.Join(places, ", ")))
	}
}
