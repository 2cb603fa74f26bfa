package admin

import (
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminpb "understudy/admin/v1"
)

// apiRoutes are all routes of the API. Those of the operations come from a mapping
// that is not in their descriptor (admin/v1/operations.yaml).
var apiRoutes = append(annotatedRoutes(adminpb.File_understudy_admin_v1_admin_proto.Services()),
	newRoute(http.MethodGet, "/v1/{name=projects/*/locations/*}/operations", true),
	newRoute(http.MethodGet, "/v1/{name=projects/*/locations/*/operations/*}", false),
	newRoute(http.MethodDelete, "/v1/{name=projects/*/locations/*/operations/*}", false),
	newRoute(http.MethodPost, "/v1/{name=projects/*/locations/*/operations/*}:cancel", false),
	newRoute(http.MethodPost, "/v1/{name=projects/*/locations/*/operations/*}:wait", false),
	newRoute(http.MethodGet, "/openapi.json", false),
)

func annotatedRoutes(services protoreflect.ServiceDescriptors) routes {
	var out routes
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			rule, _ := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
			// A path has one field; what is in neither path nor body is a parameter.
			query := rule.GetBody() != "*" && methods.Get(j).Input().Fields().Len() > 1
			switch p := rule.GetPattern().(type) {
			case *annotations.HttpRule_Get:
				out = append(out, newRoute(http.MethodGet, p.Get, query))
			case *annotations.HttpRule_Post:
				out = append(out, newRoute(http.MethodPost, p.Post, query))
			case *annotations.HttpRule_Patch:
				out = append(out, newRoute(http.MethodPatch, p.Patch, query))
			case *annotations.HttpRule_Delete:
				out = append(out, newRoute(http.MethodDelete, p.Delete, query))
			}
		}
	}
	return out
}

// newRoute reads a path template such as /v1/{name=projects/*}/policies:promote.
func newRoute(method, template string, query bool) route {
	var plain strings.Builder
	for rest := template; rest != ""; {
		before, variable, found := strings.Cut(rest, "{")
		plain.WriteString(before)
		if !found {
			break
		}
		variable, rest, _ = strings.Cut(variable, "}")
		_, pattern, _ := strings.Cut(variable, "=")
		plain.WriteString(pattern)
	}
	segments, verb := splitVerb(strings.Split(strings.Trim(plain.String(), "/"), "/"))
	return route{method, segments, verb, query}
}
