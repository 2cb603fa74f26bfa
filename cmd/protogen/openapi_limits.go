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
		switch name {
		case "displayName":
			property["maxLength"] = limits.number("maxDisplayName")
		case "rules":
			property["maxItems"] = limits.number("MaxRules")
		case "exemptedProjects":
			property["maxItems"] = limits.number("maxExempted")
			maps.Copy(property["items"].(object), object{
				"pattern": limits.text("exemptedPattern"), "maxLength": limits.number("maxExemptedLength"),
			})
		case "annotations":
			const slashAndName = 64
			property["propertyNames"] = object{
				"pattern": limits.text("annotationKeyPattern"), "maxLength": limits.number("maxAnnotationPrefix") + slashAndName,
			}
			property["description"] = fmt.Sprintf("Optional. Client-owned data: keys and values have at most %d bytes together.",
				limits.number("maxAnnotationsSize"))
		case "policies": // of a promotion; others answer with policies
			if items := property["items"].(object); strings.HasSuffix(fmt.Sprint(items["$ref"]), "PromotedPolicy") {
				property["minItems"], property["maxItems"] = 1, limits.number("maxPromoted")
			}
		case "reason": // of an acceptance; the server sets others
			if properties["groupId"] != nil {
				property["maxLength"] = limits.number("maxReason")
			}
		case "groupId":
			property["pattern"] = limits.text("groupIDPattern")
		case "maxRequestCount", "maxCallerCount":
			property["pattern"] = `^[0-9]+$`
		case "reservationMaxLength", "minDuration", "timeout":
			property["pattern"] = duration
		}
		if isShare(name) {
			property["minimum"], property["maximum"] = 0, 1
		}
	}
}

// isShare reports whether a field that clients set is a share from 0 to 1, by its name.
func isShare(name string) bool {
	return strings.HasSuffix(name, "Ratio") || strings.HasSuffix(name, "Coverage")
}
