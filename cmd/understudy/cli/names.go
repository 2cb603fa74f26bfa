package cli

import (
	"fmt"
	"strings"

	"understudy/authz"
	"understudy/cmd/understudy/command"
)

// Name turns web or web/strict into a resource name; a whole name stays as it is.
//
// People write what they say: a policy has an ID, and an experiment is a policy's. Whole
// names are what the API answers, and can be pasted.
//
// It checks nothing: what is no name is refused by the server, whose error names the field.
func (c *Client) Name(short string) string {
	if strings.HasPrefix(short, "projects/") {
		return short
	}
	policy, experiment, isExperiment := strings.Cut(short, "/")
	name := authz.Location(c.location).Policy(authz.PolicyID(policy))
	// web/experiments/strict is taken as well: it is the end of a whole name.
	if isExperiment {
		return name.Experiment(strings.TrimPrefix(experiment, "experiments/"))
	}
	return string(name)
}

// experiment is name of an argument that has to be an experiment.
func (c *Client) experiment(short string) (string, error) {
	if name := c.Name(short); isExperiment(name) {
		return name, nil
	}
	return "", command.Usage(fmt.Errorf("%q names no experiment: that is POLICY/EXPERIMENT, such as web/strict", short))
}

// short turns the resource name of an experiment in the client's location into the
// form that name takes.
//
// What is printed can be typed again. A name of another location stays whole.
func (c *Client) short(name string) string {
	if n := authz.ResourceName(name); string(n.Location()) == c.location {
		return n.Short()
	}
	return name
}

// isExperiment reports whether a whole resource name is that of an experiment.
func isExperiment(name string) bool { return authz.ResourceName(name).Experiment() != "" }

// configHelp is in the help of the commands that take the name of a configuration.
const configHelp = `The configuration of a location (where policies are promoted to, what commits require)
has its whole name: projects/shop/locations/prod/config.`

// isConfig reports whether a whole resource name is that of the configuration of a location.
//
// AIP-156: it is a singleton, so its name ends with a collection that has no ID behind it.
func isConfig(name string) bool {
	return strings.HasSuffix(name, "/config") && strings.Count(name, "/") == 4
}

// sibling turns the ID of a location into a resource name, in the project of the
// client's; a whole name stays as it is.
//
// Stages are locations of one project.
func (c *Client) sibling(short string) string {
	if strings.Contains(short, "/") {
		return short
	}
	return string(authz.ResourceName(c.location).Sibling(short))
}

// shownID is the number of characters of a revision's ID that people see.
//
// It is in hexadecimal, so 12 of them are 48 bits: two revisions of a policy, of which 100 are kept,
// never share them by chance.
const shownID = 12

// shortID is the beginning of a revision's ID: enough to name it, and a table has room for
// it.
func shortID(name string) string {
	id := authz.ResourceName(name).ID()
	return id[:min(len(id), shownID)]
}

// node turns the ID of a node into a resource name; a whole name stays as it is.
//
// The ID of a node has no slash.
func (c *Client) node(short string) string {
	if strings.Contains(short, "/") {
		return short
	}
	return authz.Location(c.location).Node(short)
}
