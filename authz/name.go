package authz

import "strings"

// A resource name (AIP-122) is collections and IDs by turns, such as
// projects/p/locations/l/policies/web. The types here take names apart and put them
// together; they check nothing: a name that enters the system is checked by the API.

// Location is the resource name of a location: a set of sidecars that enforce
// the same policies. Format: projects/{project}/locations/{location}.
type Location string

// PolicyName is the resource name of a policy. Format:
// projects/{project}/locations/{location}/policies/{policy}.
type PolicyName string

// PolicyID is the last segment of a [PolicyName].
type PolicyID string

// ResourceName is the name of any resource: a location, or what is below one.
type ResourceName string

// Segments of a name by their places.
const (
	projectSegment  = 1
	locationSegment = 3
	policySegment   = 5

	experimentsSegment = 6
	experimentSegment  = 7
)

// ID returns the last segment.
func (n ResourceName) ID() string { return string(n[strings.LastIndexByte(string(n), '/')+1:]) }

// Project returns the ID of the project; empty if the name has none.
func (n ResourceName) Project() string { return n.segment(projectSegment) }

// Location returns the location that the resource is in; empty if the name has none.
func (n ResourceName) Location() Location { return Location(n.upTo(locationSegment)) }

// Policy returns the policy that the resource is, or belongs to; empty if the name has
// none.
func (n ResourceName) Policy() PolicyName { return PolicyName(n.upTo(policySegment)) }

// Experiment returns the ID of the experiment that the resource is, or belongs to; empty if the
// name has none.
func (n ResourceName) Experiment() string {
	if n.segment(experimentsSegment) != "experiments" {
		return ""
	}
	return n.segment(experimentSegment)
}

// Short returns what people call a policy, or an experiment, that the resource is or belongs to:
// web or web/strict. Other names stay as they are.
func (n ResourceName) Short() string {
	policy := n.Policy()
	if policy == "" {
		return string(n)
	}
	if experiment := n.Experiment(); experiment != "" {
		return string(policy.ID()) + "/" + experiment
	}
	return string(policy.ID())
}

// Sibling returns the name of the resource with another ID in the same collection.
func (n ResourceName) Sibling(id string) ResourceName {
	return n[:strings.LastIndexByte(string(n), '/')+1] + ResourceName(id)
}

// segment returns a segment, counted from 0.
func (n ResourceName) segment(i int) string {
	segments := strings.SplitN(string(n), "/", i+2)
	if len(segments) <= i {
		return ""
	}
	return segments[i]
}

// upTo returns the name up to and with a segment, counted from 0; empty if there is none.
func (n ResourceName) upTo(i int) string {
	rest := string(n)
	for range i {
		_, after, ok := strings.Cut(rest, "/")
		if !ok {
			return ""
		}
		rest = after
	}
	last, _, _ := strings.Cut(rest, "/")
	return string(n[:len(n)-len(rest)+len(last)])
}

// Policy returns the name of the policy with this ID in the location.
func (l Location) Policy(id PolicyID) PolicyName {
	return PolicyName(string(l) + "/policies/" + string(id))
}

// Node returns the name of the node with this ID in the location.
func (l Location) Node(id string) string { return string(l) + "/nodes/" + id }

// ID returns the last segment.
func (n PolicyName) ID() PolicyID { return PolicyID(ResourceName(n).ID()) }

// Experiment returns the name of the policy's experiment with this ID.
func (n PolicyName) Experiment(id string) string { return string(n) + "/experiments/" + id }

// Revision returns the name of the policy's revision with this ID.
func (n PolicyName) Revision(id string) string { return string(n) + "/revisions/" + id }

// Node is a sidecar as its records name it.
type Node struct {
	// Location is the location that it belongs to.
	Location Location
	// ID is unique in the location.
	ID string
	// Observing says that nobody enforces its decisions.
	Observing bool
}
