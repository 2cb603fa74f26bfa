// Package httpauthz answers, over HTTP, proxies that ask whether to pass a request: Envoy's
// HTTP service, forward authentication (Traefik, Caddy) and auth_request (nginx).
//
// A proxy sends a subrequest about the original request. [Handler] reads the original
// request line out of it, makes the CheckRequest that Envoy would send over gRPC, lets the
// [extauthz.Server] decide that, and turns the CheckResponse into status and headers.
//
// Each protocol is a form with a path of its own, and takes the original request line
// from one place only, so that what a client sends cannot take the place of what the
// proxy says. A decision that HTTP has no way to express is a denial.
package httpauthz
