package main

import (
	"fmt"
	"maps"
	"strings"
)

// duration is a duration of proto3 JSON that is not negative.
const duration = `^[0-9]+(\.[0-9]{1,9})?s$`

// addLimits writes down what the server holds requests to. Every number and pattern is a
// constant of the code that checks it.
func addLimits(document object, admin string) error {
	limits, err := readConstants(admin)
	if err != nil {
		return fmt.Errorf("reading the limits: %w", err)
	}
	for _, o := range operationsOf(document) {
		parameters, _ := o["parameters"].([]any)
		for _, p := range parameters {
			limitParameter(p.(object), limits)
		}
		if body, ok := o["requestBody"].(object); ok {
			limitProperties(bodySchema(body), limits)
		}
	}
	for _, schema := range document["components"].(object)["schemas"].(object) {
		limitProperties(schema.(object), limits)
	}
	return limits.err()
}

// limitParameter sets the limits of one parameter: patterns of IDs in paths, and sizes
// in queries. A generated client can then refuse a wrong ID before it is sent.
func limitParameter(p object, limits *constants) {
	schema, name := p["schema"].(object), p["name"].(string)
	switch {
	// The server checks these IDs strictly because it creates something under them. An
	// ID that only looks something up may be any that can exist, hence the loose
	// pattern for the other paths.
	case name == "requestId":
		schema["pattern"] = limits.text("requestIDPattern")
	case name == "project", strings.HasSuffix(name, "Id"):
		schema["pattern"] = limits.text("strictIDPattern")
	case p["in"] == "path":
		schema["pattern"] = limits.text("looseIDPattern")
		p["description"] = p["description"].(string) + " Not `.` and not `..`."
	case name == "pageSize":
		schema["format"], schema["minimum"], schema["default"] = "int32", 0, limits.number("defaultPageSize")
		p["description"] = fmt.Sprintf("Optional. At most this many are returned. More than %d counts as %d.",
			limits.number("maxPageSize"), limits.number("maxPageSize"))
	case name == "filter":
		schema["maxLength"] = limits.number("maxFilter")
	case isShare(name):
		schema["minimum"], schema["maximum"] = 0, 1
	}
}

// limitProperties is about the properties of a schema, by name: a name means the same in
// every message.
func limitProperties(schema object, limits *constants) {
	properties, _ := schema["properties"].(object)
	for name, p := range properties {
		property := p.(object)
		// The server sets these; limits are for what clients send.
		if property["readOnly"] == true {
			if name == "uid" {
				property["format"] = "uuid"
			}
			continue
		}
		if limit, ok := propertyLimits[name]; ok {
			limit(property, properties, limits)
		}
		if isShare(name) {
			property["minimum"], property["maximum"] = 0, 1
		}
	}
}

// propertyLimits :: name of a property → how its limits are added. It gets the property, and all
// properties of its schema.
var propertyLimits = map[string]func(property, siblings object, limits *constants){
	"displayName":          func(p, _ object, limits *constants) { p["maxLength"] = limits.number("maxDisplayName") },
	"rules":                func(p, _ object, limits *constants) { p["maxItems"] = limits.number("MaxRules") },
	"exemptedProjects":     limitExempted,
	"annotations":          limitAnnotations,
	"policies":             limitPromoted,
	"reason":               limitReason,
	"groupId":              limitTarget,
	"itemId":               limitTarget,
	"maxRequestCount":      withPattern(`^[0-9]+$`),
	"maxCallerCount":       withPattern(`^[0-9]+$`),
	"reservationMaxLength": withPattern(duration),
	"minDuration":          withPattern(duration),
	"timeout":              withPattern(duration),
}

func limitExempted(property, _ object, limits *constants) {
	property["maxItems"] = limits.number("maxExempted")
	maps.Copy(property["items"].(object), object{
		"pattern": limits.text("exemptedPattern"), "maxLength": limits.number("maxExemptedLength"),
	})
}

func limitAnnotations(property, _ object, limits *constants) {
	const slashAndName = 64
	property["propertyNames"] = object{
		"pattern": limits.text("annotationKeyPattern"), "maxLength": limits.number("maxAnnotationPrefix") + slashAndName,
	}
	property["description"] = fmt.Sprintf("Optional. Client-owned data: keys and values have at most %d bytes together.",
		limits.number("maxAnnotationsSize"))
}

// limitPromoted is about the policies of a promotion; others answer with policies.
func limitPromoted(property, _ object, limits *constants) {
	if items := property["items"].(object); strings.HasSuffix(fmt.Sprint(items["$ref"]), "PromotedPolicy") {
		property["minItems"], property["maxItems"] = 1, limits.number("maxPromoted")
	}
}

// limitReason is about the reason of an acceptance; the server sets others.
func limitReason(property, siblings object, limits *constants) {
	if siblings["groupId"] != nil {
		property["maxLength"] = limits.number("maxReason")
	}
}

func limitTarget(property, _ object, limits *constants) {
	property["pattern"] = limits.text("targetIDPattern")
}

// withPattern adds a pattern that is no constant of the server.
func withPattern(pattern string) func(property, siblings object, limits *constants) {
	return func(property, _ object, _ *constants) { property["pattern"] = pattern }
}

// isShare reports whether a field that clients set is a share from 0 to 1, by its name.
func isShare(name string) bool {
	return strings.HasSuffix(name, "Ratio") || strings.HasSuffix(name, "Coverage")
}
