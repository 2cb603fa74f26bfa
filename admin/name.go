package admin

import (
	"regexp"
	"slices"
	"strings"

	"understudy/admin/apierror"
	"understudy/authz"
)

// Wildcard stands for any ID in the parent of a List (AIP-159).
const Wildcard = "-"

// idRule is what a new resource's ID has to be (AIP-122).
const idRule = "An ID has 1 to 63 characters of a-z, 0-9 and -, begins with a letter and does not end with -."

// The grammars of IDs. The OpenAPI document takes them, and the limits of content and
// aip, from these constants (cmd/protogen).
const (
	// strictIDPattern is the grammar of IDs that are chosen through this API.
	strictIDPattern = `^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`
	// looseIDPattern is the grammar of IDs that entered through the Policyfile API
	// (RFC-042), which this API reads and updates, but does not create.
	looseIDPattern = `^[A-Za-z0-9_.:-]{1,255}$`
	// requestIDPattern is the grammar of IDs of requests (AIP-155): UUIDs of version 4.
	requestIDPattern = `^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-4[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$`
)

var (
	strictID = regexp.MustCompile(strictIDPattern)
	looseID  = regexp.MustCompile(looseIDPattern)
	// requestID is what makes a call repeatable.
	requestID = regexp.MustCompile(requestIDPattern)
)

// kind is a type of resource: its pattern without the IDs.
type kind struct {
	// resourceType is the type in google.api.resource.
	resourceType string
	// collections are the segments at even places, such as projects, locations.
	collections []string
	// singleton is the last segment of the name of a resource that its parent has
	// one of, such as config (AIP-156); empty for the others.
	singleton string
}

var (
	projectKind    = kind{resourceType: "cloudresourcemanager.googleapis.com/Project", collections: []string{"projects"}}
	locationKind   = projectKind.child("locations.googleapis.com/Location", "locations")
	policyKind     = locationKind.child("understudy.internal/Policy", "policies")
	experimentKind = policyKind.child("understudy.internal/PolicyExperiment", "experiments")
	revisionKind   = policyKind.child("understudy.internal/PolicyRevision", "revisions")
	operationKind  = locationKind.child("longrunning.googleapis.com/Operation", "operations")
	nodeKind       = locationKind.child("understudy.internal/Node", "nodes")
	configKind     = locationKind.only("understudy.internal/Config", "config")
	reportKind     = experimentKind.only("understudy.internal/Report", "report")
	acceptanceKind = experimentKind.child("understudy.internal/Acceptance", "acceptances")
	datasetKind    = locationKind.child("understudy.internal/Dataset", "datasets")
	versionKind    = datasetKind.child("understudy.internal/DatasetVersion", "versions")
)

// child is the kind of the resources in a collection below the kind. The slice is copied:
// siblings must not share one.
func (k kind) child(resourceType, collection string) kind {
	return kind{resourceType: resourceType, collections: append(append([]string{}, k.collections...), collection)}
}

// only is the kind of a singleton below the kind.
func (k kind) only(resourceType, singleton string) kind {
	return kind{resourceType, k.collections, singleton}
}

// pattern returns the format of the kind's names, for error texts.
func (k kind) pattern() string {
	var b strings.Builder
	for i, c := range k.collections {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(c + "/{" + singular(c) + "}")
	}
	if k.singleton != "" {
		b.WriteString("/" + k.singleton)
	}
	return b.String()
}

// singular is the name of one resource of a collection, for error texts.
func singular(collection string) string {
	if stem, ok := strings.CutSuffix(collection, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(collection, "s")
}

// parse checks that name is a name of this kind and returns it as a Key. field is
// the path of the name in the request.
func (k kind) parse(field apierror.Field, name string) (Key, error) {
	return k.parseIDs(field, name, false)
}

// parseParent is parse for a parent in a List, where IDs may be wildcards.
func (k kind) parseParent(field apierror.Field, name string) (Key, error) {
	return k.parseIDs(field, name, true)
}

// parseIDs checks the form before the IDs, so that the error of a name of another kind
// shows the format.
func (k kind) parseIDs(field apierror.Field, name string, wildcards bool) (Key, error) {
	if name == "" {
		return "", apierror.Required(field, "Its format is "+k.pattern()+".")
	}
	segments, ok := k.split(name)
	if !ok {
		return "", apierror.InvalidName(field, "The format of the name is "+k.pattern()+".")
	}
	for i, collection := range k.collections {
		if err := checkSegment(field, collection, segments[2*i+1], wildcards); err != nil {
			return "", err
		}
	}
	return Key(name), nil
}

// split returns the segments of a name, without that of a singleton, if the name has
// the form of the kind's.
func (k kind) split(name string) ([]string, bool) {
	segments := strings.Split(name, "/")
	if last := len(segments) - 1; k.singleton != "" {
		if segments[last] != k.singleton {
			return nil, false
		}
		segments = segments[:last]
	}
	if len(segments) != 2*len(k.collections) {
		return nil, false
	}
	for i, collection := range k.collections {
		if segments[2*i] != collection {
			return nil, false
		}
	}
	return segments, true
}

// checkSegment checks one ID. That of a project is always one that this API has given;
// others may have come through the Policyfile API.
func checkSegment(field apierror.Field, collection, id string, wildcards bool) error {
	switch {
	case collection == "projects":
		if !strictID.MatchString(id) {
			return apierror.InvalidName(field, "The project ID is not valid. "+idRule)
		}
	case id == Wildcard:
		if !wildcards {
			return apierror.InvalidName(field, "The wildcard - stands only in the parent of a list.")
		}
	case !looseID.MatchString(id), id == ".", id == "..":
		return apierror.InvalidName(field, "The "+singular(collection)+
			" ID is not valid: it has 1 to 255 letters, digits and characters of _.:- and is not . or .. itself.")
	}
	return nil
}

// checkID checks an ID that a caller chooses for a new resource.
func checkID(field apierror.Field, id string) error {
	if id == "" {
		return apierror.Required(field, idRule)
	}
	if !ValidID(id) {
		return apierror.Invalid(apierror.ReasonInvalidID, field, idRule)
	}
	return nil
}

// Type returns the type of google.api.resource that the key is a name of, for errors;
// empty for what the API does not have, such as the documents of Chef's API.
func (k Key) Type() string {
	for _, kind := range []kind{
		policyKind, experimentKind, revisionKind, operationKind, nodeKind, configKind, reportKind, acceptanceKind, datasetKind, versionKind,
	} {
		if _, ok := kind.split(string(k)); ok {
			return kind.resourceType
		}
	}
	return ""
}

// String returns the name.
func (k Key) String() string { return string(k) }

// ReservedLocation is the ID of the location that no sidecar enforces. A project keeps
// there what the Policyfile API needs in addition to policies.
const ReservedLocation = "global"

// notReserved refuses the reserved location, named by a field, for what is to be live.
func notReserved(field apierror.Field, location Key) error {
	if location.ID() != ReservedLocation {
		return nil
	}
	return apierror.Invalid(apierror.ReasonInvalidField, field, "The location "+ReservedLocation+" is reserved: nothing is enforced there.")
}

// ValidID reports whether an ID is one that can be chosen through this API: that of a
// project is no other.
func ValidID(id string) bool { return strictID.MatchString(id) }

// ConfigOf returns the name of a location's configuration.
func ConfigOf(location Key) Key { return location + "/config" }

// iam is the collection in which the bindings of a project, a location, a policy or a dataset are kept.
// It has one record, so that they get an expiry and go in the ways of collections.
func (k Key) iam() Collection { return k.In("iamPolicies") }

// IAMPolicyOf returns the key of the bindings of a project, a location, a policy or a dataset
// (admin/iam). Those of the last two expire, come back and go together with them.
func IAMPolicyOf(resource Key) Key { return resource.iam().Key("bindings") }

// Lineage returns the project, the location and the policy or dataset that a resource name
// belongs to or is, as far as it has them: an ID that is none, such as the wildcard, ends it.
func Lineage(name string) []Key {
	var out []Key
	segments := strings.SplitN(name, "/", 2*len(policyKind.collections)+1)
	for i := range policyKind.collections {
		if len(segments) < 2*i+2 || !boundAt(i, segments[2*i]) || checkSegment("", segments[2*i], segments[2*i+1], false) != nil {
			break
		}
		out = append(out, Key(strings.Join(segments[:2*i+2], "/")))
	}
	return out
}

// boundAt reports whether resources of a collection, at a depth from 0, can have bindings.
func boundAt(depth int, collection string) bool {
	return slices.ContainsFunc(boundKinds, func(k kind) bool {
		return len(k.collections) == depth+1 && k.collections[depth] == collection
	})
}

// boundKinds are those of the resources that can have bindings of their own.
var boundKinds = []kind{projectKind, locationKind, policyKind, datasetKind}

// ParseBound checks that name is that of a resource that can have bindings of its own: a
// project, a location, a policy or a dataset. field is the path of the name in the request.
func ParseBound(field apierror.Field, name string) (Key, error) {
	if name == "" {
		return "", apierror.Required(field, "It is a project, a location, a policy or a dataset, such as "+projectKind.pattern()+".")
	}
	for _, k := range boundKinds {
		if _, ok := k.split(name); ok {
			return k.parse(field, name)
		}
	}
	return "", apierror.InvalidName(field, "Bindings are those of a project, a location, a policy or a dataset. The format of the name is "+
		projectKind.pattern()+", "+locationKind.pattern()+", "+policyKind.pattern()+" or "+datasetKind.pattern()+".")
}

// IsDataset reports whether a key is the name of a dataset.
func IsDataset(k Key) bool {
	_, ok := datasetKind.split(string(k))
	return ok
}

// reportOf returns the name of an experiment's report, and experimentOf that of the
// experiment of a report.
func reportOf(experiment Key) Key { return experiment + "/report" }

func experimentOf(report Key) Key { return Key(strings.TrimSuffix(string(report), "/report")) }

// acceptances is the collection in which the acceptances of a policy's experiments are kept, in
// one record for each experiment: so they are read at one instant with it, and go in the ways of
// collections.
func (k Key) acceptances() Collection { return k.In("acceptances") }

// acceptancesOf returns the key of the acceptances of an experiment.
func acceptancesOf(experiment Key) Key { return experiment.Policy().acceptances().Key(experiment.ID()) }

// parent returns the key without its last two segments.
func (k Key) parent() Key {
	segments := strings.Split(string(k), "/")
	return Key(strings.Join(segments[:max(0, len(segments)-2)], "/"))
}

// Project returns the ID of the project that the key belongs to.
func (k Key) Project() string { return authz.ResourceName(k).Project() }

// Location returns the location that the key belongs to or is.
func (k Key) Location() authz.Location { return authz.ResourceName(k).Location() }

// Policy returns the policy that the key belongs to or is; empty if there is none. Of what
// the Policyfile API keeps, it is the key of the same depth.
func (k Key) Policy() Key { return Key(authz.ResourceName(k).Policy()) }

// ID returns the last segment of the key.
func (k Key) ID() string { return authz.ResourceName(k).ID() }

// In returns the collection of this name below the key.
func (k Key) In(collection string) Collection { return Collection(string(k) + "/" + collection) }

// Key returns the name of the collection's resource with this ID.
func (c Collection) Key(id string) Key { return Key(string(c) + "/" + id) }
