package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminpb "understudy/admin/v1"
)

// apiRoutes are all routes of the API. Those of the operations and of IAM come from
// mappings that are not in their descriptors (admin/v1/operations.yaml, admin/v1/iam.yaml).
// What ends with a verb of IAM stands before a resource whose ID has a colon.
var apiRoutes = slices.Concat(
	iamRoutes("projects/*"), iamRoutes("projects/*/locations/*"), iamRoutes("projects/*/locations/*/policies/*"),
	iamRoutes("projects/*/locations/*/datasets/*"),
	annotatedRoutes(adminpb.File_understudy_admin_v1_admin_proto.Services()),
	routes{
		newRoute(longrunningpb.Operations_ListOperations_FullMethodName, http.MethodGet, "/v1/{name=projects/*/locations/*}/operations", true),
		newRoute(longrunningpb.Operations_GetOperation_FullMethodName, http.MethodGet, "/v1/{name=projects/*/locations/*/operations/*}", false),
		newRoute(longrunningpb.Operations_DeleteOperation_FullMethodName, http.MethodDelete, "/v1/{name=projects/*/locations/*/operations/*}", false),
		newRoute(longrunningpb.Operations_CancelOperation_FullMethodName, http.MethodPost, "/v1/{name=projects/*/locations/*/operations/*}:cancel", false),
		newRoute(longrunningpb.Operations_WaitOperation_FullMethodName, http.MethodPost, "/v1/{name=projects/*/locations/*/operations/*}:wait", false),
		{method: http.MethodGet, segments: []string{"openapi.json"}, document: true},
	},
)

// iamRoutes are those of google.iam.v1.IAMPolicy on a type of resource.
func iamRoutes(pattern string) routes {
	path := "/v1/{resource=" + pattern + "}:"
	return routes{
		newRoute(iampb.IAMPolicy_GetIamPolicy_FullMethodName, http.MethodGet, path+"getIamPolicy", true),
		newRoute(iampb.IAMPolicy_SetIamPolicy_FullMethodName, http.MethodPost, path+"setIamPolicy", false),
		newRoute(iampb.IAMPolicy_TestIamPermissions_FullMethodName, http.MethodPost, path+"testIamPermissions", false),
	}
}

// routes are the methods and path templates of the API.
type routes []route

// route is one method with the template of its path.
type route struct {
	// rpc is the method of gRPC, such as /understudy.admin.v1.PolicyPreview/GetPolicy.
	rpc      string
	method   string
	segments []string
	verb     string
	// named is the number of segments of the resource name in the path, which stands behind
	// the version.
	named int
	// query says that the call takes query parameters: its path and body do not
	// have all fields of the request.
	query bool
	// body is the field of the request that the body is; empty if it is none, or all.
	body string
	// document says that it is the OpenAPI document, and no call.
	document bool
	// plain answers a call whose body, or whose answer, is a document as it is; nil for those of
	// the gateway.
	plain func(*API, http.ResponseWriter, *http.Request, route)
}

// find returns the route of a method and an escaped path.
func (r routes) find(method, path string) (route, bool) {
	for _, route := range r {
		if route.method == method && route.matches(path) {
			return route, true
		}
	}
	return route{}, false
}

// allowed returns the methods that a path has, sorted. What follows a colon is taken
// for a verb here, so that a mistyped one is not found: an ID with a colon is rare.
func (r routes) allowed(path string) []string {
	var out []string
	verb := strings.Contains(path[strings.LastIndexByte(path, '/')+1:], ":")
	for _, route := range r {
		if verb == (route.verb != "") && route.matches(path) && !slices.Contains(out, route.method) {
			out = append(out, route.method)
		}
	}
	if slices.Contains(out, http.MethodGet) {
		out = append(out, http.MethodHead)
	}
	slices.Sort(out)
	return out
}

// matches reports whether an escaped path is of the route. An ID may have colons
// (RFC-042), so the verb is what stands after the last one, as it is to the gateway.
func (r route) matches(path string) bool {
	path, absolute := strings.CutPrefix(path, "/")
	if r.verb != "" {
		var ok bool
		if path, ok = strings.CutSuffix(path, ":"+r.verb); !ok {
			return false
		}
	}
	return absolute && slices.EqualFunc(r.segments, strings.Split(path, "/"), func(p, s string) bool { return p == s || p == "*" && s != "" })
}

// resource returns the resource name in an escaped path of the route, as the gateway
// decodes it. An escape that is not valid stays as it is, and bytes that are not UTF-8, which
// no name has, are replaced: an error has to hold the text.
func (r route) resource(path string) string {
	if r.verb != "" {
		path = strings.TrimSuffix(path, ":"+r.verb)
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	segments = segments[1 : 1+r.named]
	for i, s := range segments {
		if plain, err := url.PathUnescape(s); err == nil {
			segments[i] = plain
		}
	}
	return strings.ToValidUTF8(strings.Join(segments, "/"), "\uFFFD")
}

// annotatedRoutes reads the routes from the annotations of the services, which the
// gateway is generated from, too: the two cannot differ. What ends with a verb comes first.
func annotatedRoutes(services protoreflect.ServiceDescriptors) routes {
	var out routes
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			rpc := fmt.Sprintf("/%s/%s", services.Get(i).FullName(), methods.Get(j).Name())
			rule, _ := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
			// A path has one field; what is in neither path nor body is a parameter.
			query := rule.GetBody() != "*" && methods.Get(j).Input().Fields().Len() > 1
			next := route{}
			switch p := rule.GetPattern().(type) {
			case *annotations.HttpRule_Get:
				next = newRoute(rpc, http.MethodGet, p.Get, query)
			case *annotations.HttpRule_Post:
				next = newRoute(rpc, http.MethodPost, p.Post, query)
			case *annotations.HttpRule_Patch:
				next = newRoute(rpc, http.MethodPatch, p.Patch, query)
			case *annotations.HttpRule_Delete:
				next = newRoute(rpc, http.MethodDelete, p.Delete, query)
			}
			if next.body = rule.GetBody(); next.body == "*" {
				next.body = ""
			}
			next.plain = plainRoutes[rpc]
			out = append(out, next)
		}
	}
	// GET datasets/users:download is also a GET of a dataset with the ID users:download.
	slices.SortStableFunc(out, func(a, b route) int { return cmp.Compare(b.verb, a.verb) })
	return out
}

// newRoute reads a path template such as /v1/{name=projects/*}/policies:promote.
func newRoute(rpc, method, template string, query bool) route {
	var plain strings.Builder
	named := 0
	for rest := template; rest != ""; {
		before, variable, found := strings.Cut(rest, "{")
		plain.WriteString(before)
		if !found {
			break
		}
		variable, rest, _ = strings.Cut(variable, "}")
		_, pattern, _ := strings.Cut(variable, "=")
		plain.WriteString(pattern)
		named = strings.Count(pattern, "/") + 1
	}
	path, verb, _ := strings.Cut(strings.TrimPrefix(plain.String(), "/"), ":")
	return route{rpc: rpc, method: method, segments: strings.Split(path, "/"), verb: verb, named: named, query: query}
}
