package admin

import (
	"regexp"
	"strings"

	"understudy/authz"
)

// wildcard stands for any ID in the parent of a List (AIP-159).
const wildcard = "-"

// idRule is what a new resource's ID has to be (AIP-122).
const idRule = "An ID has 1 to 63 characters of a-z, 0-9 and -, begins with a letter and does not end with -."

// The grammars of IDs. The OpenAPI document takes them, and the other limits of this
// package and of aip, from these constants (cmd/protogen).
const (
	// strictIDPattern is the grammar of IDs that are chosen through this API.
	strictIDPattern = `^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`
	// looseIDPattern is the grammar of IDs that entered through the Policyfile API
	// (RFC-042), which this API reads and updates, but does not create.
	looseIDPattern = `^[A-Za-z0-9_.:-]{1,255}$`
)

var (
	strictID = regexp.MustCompile(strictIDPattern)
	looseID  = regexp.MustCompile(looseIDPattern)
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
	locationKind   = kind{resourceType: "locations.googleapis.com/Location", collections: []string{"projects", "locations"}}
	policyKind     = locationKind.child("understudy.internal/Policy", "policies")
	experimentKind = policyKind.child("understudy.internal/PolicyExperiment", "experiments")
	revisionKind   = policyKind.child("understudy.internal/PolicyRevision", "revisions")
	operationKind  = locationKind.child("longrunning.googleapis.com/Operation", "operations")
	nodeKind       = locationKind.child("understudy.internal/Node", "nodes")
	configKind     = locationKind.only("understudy.internal/Config", "config")
)

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

func singular(collection string) string {
	if stem, ok := strings.CutSuffix(collection, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(collection, "s")
}

// parse checks that name is a name of this kind and returns it as a Key. field is
// the path of the name in the request.
func (k kind) parse(field, name string) (Key, error) {
	return k.parseIDs(field, name, false)
}

// parseParent is parse for a parent in a List, where IDs may be wildcards.
func (k kind) parseParent(field, name string) (Key, error) {
	return k.parseIDs(field, name, true)
}

func (k kind) parseIDs(field, name string, wildcards bool) (Key, error) {
	if name == "" {
		return "", required(field, "Its format is "+k.pattern()+".")
	}
	segments, ok := k.split(name)
	if !ok {
		return "", invalidName(field, "The format of the name is "+k.pattern()+".")
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

func checkSegment(field, collection, id string, wildcards bool) error {
	switch {
	case collection == "projects":
		if !strictID.MatchString(id) {
			return invalidName(field, "The project ID is not valid. "+idRule)
		}
	case id == wildcard:
		if !wildcards {
			return invalidName(field, "The wildcard - stands only in the parent of a list.")
		}
	case !looseID.MatchString(id), id == ".", id == "..":
		return invalidName(field, "The "+singular(collection)+
			" ID is not valid: it has 1 to 255 letters, digits and characters of _.:- and is not . or .. itself.")
	}
	return nil
}

func invalidName(field, description string) error {
	return invalid(reasonInvalidName, violation{field, description})
}

// checkID checks an ID that a caller chooses for a new resource.
func checkID(field, id string) error {
	if id == "" {
		return required(field, idRule)
	}
	if !strictID.MatchString(id) {
		return invalid(reasonInvalidID, violation{field, idRule})
	}
	return nil
}

// typeOf returns the resource type of a name, for errors.
func typeOf(name Key) string {
	for _, k := range []kind{policyKind, experimentKind, revisionKind, operationKind, nodeKind, configKind} {
		if _, ok := k.split(string(name)); ok {
			return k.resourceType
		}
	}
	return ""
}

// configOf returns the name of a location's configuration.
func configOf(location Key) Key { return location + "/config" }

// project returns the ID of the project that the key belongs to.
func (k Key) project() string { return strings.SplitN(string(k), "/", 3)[1] }

// location returns the location that the key belongs to or is.
func (k Key) location() authz.Location {
	segments := strings.SplitN(string(k), "/", 5)
	return authz.Location(strings.Join(segments[:4], "/"))
}

// policy returns the policy that the key belongs to or is.
func (k Key) policy() Key {
	segments := strings.SplitN(string(k), "/", 7)
	return Key(strings.Join(segments[:6], "/"))
}

// id returns the last segment of the key.
func (k Key) id() string { return string(k[strings.LastIndexByte(string(k), '/')+1:]) }

// in returns the collection of this name below the key.
func (k Key) in(collection string) Collection { return Collection(string(k) + "/" + collection) }

// key returns the name of the collection's resource with this ID.
func (c Collection) key(id string) Key { return Key(string(c) + "/" + id) }
