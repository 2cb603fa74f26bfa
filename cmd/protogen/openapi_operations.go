package main

// operationFilter describes the filter of a foreign proto's method.
const operationFilter = "Optional. An AIP-160 filter over `name`, `metadata`, `done`, `error` and `response`. " +
	"A word alone searches `name`.\nExample: `metadata.verb = commit AND NOT done = true`"

// addOperations adds google.longrunning.Operations as admin/v1/operations.yaml maps it:
// the plugin reads HTTP rules only from the proto itself, and that one is Google's. A
// test compares these paths with those that the server serves.
func addOperations(paths object) {
	const location = "/v1/projects/{project}/locations/{location}/operations"
	paths[location] = object{"get": operation("ListOperations", "Lists operations.", "location",
		object{"type": "object", "properties": object{
			"operations":    object{"type": "array", "items": operationRef()},
			"nextPageToken": object{"type": "string"},
		}},
		query("filter", "string", operationFilter),
		query("pageSize", "integer", "Optional. At most this many are returned. Default 50, maximum 1000."),
		query("pageToken", "string", "The nextPageToken of an earlier call."))}
	paths[location+"/{operation}"] = object{
		"get":    operation("GetOperation", "Gets the latest state of an operation.", "operation", operationRef()),
		"delete": operation("DeleteOperation", "Forgets an operation. It does not cancel it.", "operation", object{"type": "object"}),
	}
	paths[location+"/{operation}:cancel"] = object{"post": withBody(operation("CancelOperation",
		"Notes that a cancellation was asked for. The change stays.", "operation", object{"type": "object"}),
		object{"type": "object"})}
	paths[location+"/{operation}:wait"] = object{"post": withBody(operation("WaitOperation",
		"Returns once the operation is done or the timeout is over.", "operation", operationRef()),
		object{"type": "object", "properties": object{"timeout": object{"type": "string",
			"description": "Optional. At most a minute, which is also the default."}}})}
}

// addErrors makes the error of every method the JSON that the server sends (AIP-193).
// The plugin would declare google.rpc.Status, which the gateway sends by default; ours
// stands below the key "error", as Google's REST APIs have it.
func addErrors(document object) {
	schemas := document["components"].(object)["schemas"].(object)
	schemas["ErrorResponse"] = object{"type": "object", "properties": object{
		"error": object{"$ref": "#/components/schemas/ErrorBody"},
	}}
	schemas["ErrorBody"] = object{"type": "object", "properties": object{
		"code":    object{"type": "integer", "description": "The HTTP status."},
		"message": object{"type": "string"},
		"status":  object{"type": "string", "description": "The name of the google.rpc.Code."},
		"details": object{"type": "array", "items": object{"$ref": "#/components/schemas/ErrorDetail"},
			"description": "One google.rpc.ErrorInfo, and further details."},
	}}
	schemas["ErrorDetail"] = object{"type": "object", "additionalProperties": true, "properties": object{
		"@type":    object{"type": "string", "description": "The type, such as type.googleapis.com/google.rpc.ErrorInfo."},
		"reason":   object{"type": "string", "description": "Of an ErrorInfo: the reason, for programs; it keeps its meaning."},
		"domain":   object{"type": "string", "description": "Of an ErrorInfo: understudy.internal."},
		"metadata": object{"type": "object", "additionalProperties": object{"type": "string"}, "description": "Of an ErrorInfo: what the message is about."},
	}}
	for _, o := range operationsOf(document) {
		o["responses"].(object)["default"] = object{"description": "An error.",
			"content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/ErrorResponse"}}}}
	}
}

// operationRef refers to the schema that the plugin wrote: our own methods return
// operations.
func operationRef() object {
	return object{"$ref": "#/components/schemas/google.longrunning.Operation"}
}

// operation is one method of google.longrunning.Operations. last is the last variable
// of its path; more are its query parameters.
func operation(id, summary, last string, response object, more ...any) object {
	parameters := []any{pathParameter("project"), pathParameter("location")}
	if last == "operation" {
		parameters = append(parameters, pathParameter("operation"))
	}
	return object{
		"tags": []any{"Operations"}, "operationId": id, "summary": summary,
		"parameters": append(parameters, more...),
		"responses": object{
			"200": object{"description": "A successful response.", "content": jsonOf(response)},
		},
	}
}

// withBody gives an operation a request body, which a POST of these has to have, if
// only {}.
func withBody(operation, schema object) object {
	operation["requestBody"] = object{"content": jsonOf(schema)}
	return operation
}

func pathParameter(name string) object {
	return object{"name": name, "in": "path", "required": true,
		"description": "The ID of the " + name + ".", "schema": object{"type": "string"}}
}

// query is an optional query parameter.
func query(name, kind, description string) object {
	return object{"name": name, "in": "query", "description": description, "schema": object{"type": kind}}
}
