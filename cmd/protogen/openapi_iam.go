package main

import "strings"

// bound are the resources that can have bindings, by the end of their paths, and the names
// of their parameters.
var bound = []struct {
	path, title string
	parameters  []string
}{
	{"/v1/projects/{project}", "Project", []string{"project"}},
	{"/v1/projects/{project}/locations/{location}", "Location", []string{"project", "location"}},
	{"/v1/projects/{project}/locations/{location}/policies/{policy}", "Policy", []string{"project", "location", "policy"}},
	{"/v1/projects/{project}/locations/{location}/datasets/{dataset}", "Dataset", []string{"project", "location", "dataset"}},
}

// addIAM adds google.iam.v1.IAMPolicy as admin/v1/iam.yaml maps it, as addOperations does
// with the operations. The schemas leave out what the server refuses: conditions and audit
// configurations.
func addIAM(document object) {
	paths := document["paths"].(object)
	for _, b := range bound {
		of := " on a " + strings.ToLower(b.title) + "."
		method := func(id, summary string, response string, more ...any) object {
			var parameters []any
			for _, p := range b.parameters {
				parameters = append(parameters, pathParameter(p))
			}
			return object{
				"tags": []any{"IAMPolicy"}, "operationId": id, "summary": summary, "parameters": append(parameters, more...),
				"responses": object{"200": object{"description": "A successful response.", "content": jsonOf(schemaRef(response))}},
			}
		}
		paths[b.path+":getIamPolicy"] = object{"get": method("Get"+b.title+"IamPolicy", "Gets the bindings that are set"+of, "IamPolicy",
			query("options.requestedPolicyVersion", "integer", "Optional. 0, 1 or 3, which are the same here: there are no conditions."))}
		set := withBody(method("Set"+b.title+"IamPolicy",
			"Replaces the bindings that are set"+of+" With an etag it fails unless they are those that were read.", "IamPolicy"), schemaRef("SetIamPolicyRequest"))
		set["requestBody"].(object)["required"] = true
		paths[b.path+":setIamPolicy"] = object{"post": set}
		paths[b.path+":testIamPermissions"] = object{"post": withBody(method("Test"+b.title+"IamPermissions",
			"Tests the permissions of the caller"+of+" The answer has those that it has and that apply to the resource; on what is not there, none.", "TestIamPermissionsResponse"),
			schemaRef("TestIamPermissionsRequest"))}
	}
	addIAMSchemas(document["components"].(object)["schemas"].(object))
	document["tags"] = append(document["tags"].([]any), object{"name": "IAMPolicy", "description": "Says who may do what, and asks it."})
}

// addIAMSchemas adds the messages. Policy has its name from Google, which is taken here.
func addIAMSchemas(schemas object) {
	schemas["IamPolicy"] = object{"type": "object", "description": "The bindings of a resource. They hold for all below it, too.", "properties": object{
		"version":  object{"type": "integer", "format": "int32", "description": "The schema of the bindings: 1."},
		"etag":     object{"type": "string", "format": "byte", "description": "Optional. That of the bindings that were read."},
		"bindings": object{"type": "array", "items": schemaRef("IamBinding"), "description": "At most 1,500 members together."},
	}}
	schemas["IamBinding"] = object{"type": "object", "description": "Gives a role to members.", "properties": object{
		"role": object{"type": "string", "description": "Such as roles/understudy.viewer."},
		"members": textList("Each is spiffe://DOMAIN/PATH, cert:NAME, oidc:ISSUER#SUBJECT, group:NAME, token:NAME, chef:NAME " +
			"or allAuthenticated."),
	}}
	schemas["SetIamPolicyRequest"] = object{"type": "object", "required": []any{"policy"}, "properties": object{
		"policy":     schemaRef("IamPolicy"),
		"updateMask": object{"type": "string", "format": "field-mask", "description": "Optional. Of bindings and etag; without it, both."},
	}}
	schemas["TestIamPermissionsRequest"] = object{"type": "object", "properties": object{
		"permissions": textList("Such as understudy.policies.get. At most 100."),
	}}
	schemas["TestIamPermissionsResponse"] = object{"type": "object", "properties": object{
		"permissions": textList("Those that the caller has."),
	}}
}

// textList is an array of strings.
func textList(description string) object {
	return object{"type": "array", "items": object{"type": "string"}, "description": description}
}

// schemaRef refers to a schema that is written here.
func schemaRef(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// jsonOf is the content of a body of JSON.
func jsonOf(schema object) object { return object{"application/json": object{"schema": schema}} }
