package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"

	"understudy/admin/access"
	"understudy/admin/policyfile"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// pushTime bounds one call of the Policyfile API.
const pushTime = 30 * time.Second

// NewPush makes the command for Policyfile locks (RFC-042). It uses the Policyfile API, as
// Chef's tools do, so that anyone who has those needs no other way.
func NewPush() *cobra.Command {
	var allowNoOp bool
	cmd, _ := newChange(Help{"push GROUP LOCK", "Make a Policyfile lock the active one of a policy group",
		`LOCK is a file that 'understudy lock' wrote, or - for standard input. GROUP is a
policy group, such as dev: the ID of a location, in the project of --location, or its
whole resource name. Group, policy and revision are made as needed.

A revision is what its revision_id says. If the server knows it already, it makes the
lock active that it has. Promote it from there with 'understudy promote'.

A lock of which nothing can be enforced, such as one of Chef's, leaves requests to the
default decision. It is pushed with --allow-no-op only.`},
		cobra.ExactArgs(2), func(c *Client, ctx context.Context, args []string) error {
			document, err := command.ReadFile(args[1], c.In)
			if err != nil {
				return command.Usage(err)
			}
			lock, err := policyfile.Parse(document)
			if err != nil {
				return command.Usage(fmt.Errorf("%s is no Policyfile lock: %w", args[1], err))
			}
			if _, err := lock.Policy(); err != nil && !allowNoOp {
				return fmt.Errorf("nothing of %s can be enforced: %w; push it all the same with --allow-no-op", args[1], err)
			}
			return c.push(ctx, c.sibling(args[0]), lockFile{args[1], document, lock}, allowNoOp)
		})
	cmd.Example = `  understudy lock ./policy --name web > web.lock.json
  understudy push dev web.lock.json
  understudy next --location projects/default/locations/dev prod
  understudy promote --location projects/default/locations/dev web --yes`
	cmd.Flags().BoolVar(&allowNoOp, "allow-no-op", false, "push a lock of which nothing can be enforced")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// pushed is what a push did, as it is printed with -o json.
//
// Its fields have the names of Chef's own documents, and not those of our API.
type pushed struct {
	// Group is a policy group, which is a location here.
	Group string `json:"policy_group"`
	// Name is the policy that the lock is about.
	Name string `json:"name"`
	// RevisionID is the hash of the lock.
	RevisionID string `json:"revision_id"`
	// Created says that the group had no lock of this policy before.
	Created bool `json:"created"`
	// Enforcement says whether the rules of the lock are enforced, or why not.
	Enforcement string `json:"enforcement"`
}

// lockFile is a file that has a lock, as it was read.
type lockFile struct {
	name     string
	document []byte
	lock     *policyfile.Lock
}

// push puts a lock into a location.
//
// The lock is sent byte for byte: its revision ID is a hash that its author has made, and tools
// compare documents.
func (c *Client) push(ctx context.Context, location string, from lockFile, allowNoOp bool) error {
	name := authz.ResourceName(location)
	if location != fmt.Sprintf("projects/%s/locations/%s", name.Project(), name.ID()) {
		return command.Usage(fmt.Errorf("%s is no policy group: it is like dev, in the project of --location %s, or projects/default/locations/dev", location, c.location))
	}
	path := "/organizations/" + url.PathEscape(name.Project()) + "/policy_groups/" + url.PathEscape(name.ID()) +
		"/policies/" + url.PathEscape(from.lock.Name)
	if allowNoOp {
		path += "?" + policyfile.AllowNoOp + "=true"
	}
	active, err := c.put(ctx, path, from.document)
	if err != nil {
		return err
	}
	// The hash is over a part of the lock, so two documents of one revision may differ in the rest.
	if !sameDocument(active.document, from.document) {
		fmt.Fprintf(c.Err, "the server knows the revision %s already: what it has is active, and differs from %s\n", from.lock.RevisionID, from.name)
	}
	if err := c.awaitApplied(ctx, active.operation); err != nil {
		return err
	}
	return c.showPushed(pushed{
		name.ID(), from.lock.Name, from.lock.RevisionID, active.created, active.enforcement,
	})
}

// activeLock is what the Policyfile API answers.
type activeLock struct {
	// document is the lock as the server has it.
	document []byte
	// created, enforcement and operation come from the status and headers of the answer,
	// since its body is the lock and nothing else.
	created     bool
	enforcement string
	operation   string
}

// put sends a document to the Policyfile API.
func (c *Client) put(ctx context.Context, path string, document []byte) (activeLock, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	response, caller, err := c.call(ctx, http.MethodPut, path, bytes.NewReader(document))
	if err != nil {
		return activeLock{}, fmt.Errorf("calling the Policyfile API: %w", err)
	}
	defer caller.CloseIdleConnections()
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxMessage))
	if err != nil {
		return activeLock{}, fmt.Errorf("calling the Policyfile API: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return activeLock{}, c.refusedPush(ctx, response, answer)
	}
	return activeLock{
		answer, response.StatusCode == http.StatusCreated,
		response.Header.Get(policyfile.EnforcementHeader), response.Header.Get(policyfile.OperationHeader),
	}, nil
}

// refusedPush is what the API says against a lock, or against who pushes it.
//
// Chef's errors are a list of texts. Ours have google.rpc.ErrorInfo next to it, from which the
// permission is known that was missing.
func (c *Client) refusedPush(ctx context.Context, response *http.Response, answer []byte) error {
	var problem struct {
		Error []string `json:"error"`
		// Details are those of google.rpc.ErrorInfo.
		Details []struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"details"`
	}
	if err := json.Unmarshal(answer, &problem); err != nil || len(problem.Error) == 0 {
		return c.noAPI(response)
	}
	text := strings.Join(problem.Error, "\n  ")
	if response.StatusCode == http.StatusUnauthorized {
		text += "\n  " + c.howToBeKnown()
	}
	for _, d := range problem.Details {
		if missing := d.Metadata["permission"]; missing != "" {
			text += c.howToBeAllowed(ctx, access.Permission(missing), d.Metadata["resource"])
		}
	}
	return errors.New(text)
}

// awaitApplied waits until every live sidecar has the lock.
//
// The Policyfile API answers when the lock is stored; its header names the operation.
func (c *Client) awaitApplied(ctx context.Context, operation string) error {
	op, err := c.operations.GetOperation(ctx, &longrunningpb.GetOperationRequest{Name: operation})
	if err != nil {
		return err
	}
	_, err = c.await(ctx, op)
	return err
}

// showPushed prints what a push did.
func (c *Client) showPushed(p pushed) error {
	if c.Output == "json" {
		return terminal.WriteValue(c.Out, p)
	}
	_, err := fmt.Fprintf(c.Out, "%s is active in the policy group %s at revision %s; %s\n",
		p.Name, p.Group, shortID(p.RevisionID), p.Enforcement)
	return err
}

// sameDocument compares documents but for what is around them.
func sameDocument(a, b []byte) bool { return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b)) }
