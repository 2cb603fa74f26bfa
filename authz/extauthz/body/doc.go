// Package body makes input.parsed_body of the body of a request.
//
// To parse a body costs much more than all the rest of a check, and about 60 times its
// size in memory. So there are three steps, of which a policy that does not read the body
// takes none: [Parser.Find] says by the headers what the body is and whether it is whole;
// its values are counted without making them; and [Body.Value] parses it, once the memory
// for that is granted by the [authz.ReadBudget].
//
// Which bodies are read, and as what, is as in opa-envoy-plugin: JSON, forms, multipart
// forms and gRPC messages. Where it is not plain what the upstream will read (the body is
// cut off, the content type is not one), a policy sees that the body is truncated, or
// the request is refused: both stop a policy that would allow a body it does not know.
package body
