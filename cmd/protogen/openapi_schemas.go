package main

import "strings"

// plainSchemas takes away what generated clients get wrong. It was found by generating
// Python and TypeScript clients and running them (make test-clients).
func plainSchemas(document object) {
	schemas := document["components"].(object)["schemas"].(object)
	for name, schema := range schemas {
		say := "Set one of "
		if strings.HasPrefix(name, "google.") {
			say = "It has at most one of "
		}
		plainOneof(schema.(object), say)
	}
	// The body of a PATCH is the same message as that of a POST, and leaves out what it
	// does not change. Here a schema has one list of required properties for both.
	delete(schemas["understudy.admin.v1.PolicyExperiment"].(object), "required")
	for _, o := range operationsOf(document) {
		if body, ok := o["requestBody"].(object); ok {
			loosenBody(body)
		}
	}
}

// plainOneof replaces oneOf next to properties, which generators take for either the one
// or the other: what they make loses the properties that are common, or refuses
// everything. What it meant becomes a sentence that begins with say.
func plainOneof(schema object, say string) {
	alternatives, ok := schema["oneOf"].([]any)
	if !ok || schema["properties"] == nil {
		return
	}
	var names []string
	for _, a := range alternatives {
		required, _ := a.(object)["required"].([]any)
		for _, name := range required {
			names = append(names, "`"+name.(string)+"`")
		}
	}
	delete(schema, "oneOf")
	text, _ := schema["description"].(string)
	schema["description"] = strings.TrimSpace(text + " " + say + strings.Join(names, ", ") + ".")
}

// loosenBody says that a body may be left out if nothing in it is required. A resource
// as body is required as such.
func loosenBody(body object) {
	schema := bodySchema(body)
	if schema["$ref"] == nil && schema["required"] == nil {
		delete(body, "required")
	}
}

// bodySchema is the schema of a request or a response; all are JSON.
func bodySchema(body object) object {
	return body["content"].(object)["application/json"].(object)["schema"].(object)
}

// nameSchemas moves the schemas that stand within calls and messages to the components,
// under the names of their messages: a generator would make up others.
func nameSchemas(document object) {
	schemas := document["components"].(object)["schemas"].(object)
	for _, o := range operationsOf(document) {
		id := o["operationId"].(string)
		name := strings.ToUpper(id[:1]) + id[1:]
		if body, ok := o["requestBody"].(object); ok {
			nameSchema(schemas, name+"Request", body)
		}
		nameSchema(schemas, name+"Response", o["responses"].(object)["200"].(object))
	}
	const packed = "PackedMessage" // not Any, which Python's and TypeScript's types shadow
	schemas[packed] = object{"type": "object", "additionalProperties": true, "properties": object{"@type": object{"type": "string"}},
		"description": "A message of the type that `@type` names."}
	reference := object{"$ref": "#/components/schemas/" + packed}
	operation := schemas["google.longrunning.Operation"].(object)["properties"].(object)
	operation["metadata"], operation["response"] = reference, reference
	schemas["google.rpc.Status"].(object)["properties"].(object)["details"].(object)["items"] = reference
}

// nameSchema moves the schema of a body or an answer that has properties of its own.
func nameSchema(schemas object, name string, content object) {
	if content["content"] == nil {
		return
	}
	if schema := bodySchema(content); schema["properties"] != nil {
		schemas[name] = schema
		content["content"].(object)["application/json"].(object)["schema"] = object{"$ref": "#/components/schemas/" + name}
	}
}

// renameSchemas gives schemas the names that messages have in their package, which is
// what the types of generated clients are called: Policy, not UnderstudyAdminV1Policy.
func renameSchemas(document object) {
	components := document["components"].(object)
	renamed := make(object)
	for name, schema := range components["schemas"].(object) {
		renamed[shortName(name)] = schema
	}
	components["schemas"] = renamed
	renameReferences(document)
}

// shortName is the name of a message without its package. Packages are cut here only if
// they are known, so that two messages of one name could not silently become one.
func shortName(name string) string {
	for _, prefix := range []string{"understudy.admin.v1.", "google.longrunning.", "google.rpc."} {
		name = strings.TrimPrefix(name, prefix)
	}
	return strings.ReplaceAll(name, ".", "")
}

// renameReferences follows renamed schemas through the whole document.
func renameReferences(node any) {
	const prefix = "#/components/schemas/"
	switch node := node.(type) {
	case object:
		for key, value := range node {
			if reference, ok := value.(string); ok && key == "$ref" {
				node[key] = prefix + shortName(strings.TrimPrefix(reference, prefix))
			}
			renameReferences(value)
		}
	case []any:
		for _, value := range node {
			renameReferences(value)
		}
	}
}

// plainDocuments makes a google.api.HttpBody what it is over REST: the document itself, of
// any form.
func plainDocuments(document object) {
	const body = "googleapiHttpBody"
	for _, o := range operationsOf(document) {
		contents := []any{o["responses"].(object)["200"]}
		if given, ok := o["requestBody"]; ok {
			contents = append(contents, given)
		}
		for _, c := range contents {
			if c := c.(object); c["content"] != nil && bodySchema(c)["$ref"] == "#/components/schemas/"+body {
				c["content"] = jsonOf(object{"description": "Any JSON document."})
			}
		}
	}
	delete(document["components"].(object)["schemas"].(object), body)
}
