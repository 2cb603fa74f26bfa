// Package ui is the page that answers: should I commit?
//
// A view is one page: the policies of a location, a policy, an experiment, the stages of a
// project, an operation. Each is made anew from the services for each request, with the
// permissions of anyone who asks, and is a list of parts, the pieces of the page that change
// while one looks. All of it works without JavaScript: links, forms that are posted, and
// query parameters that sort and filter. With it a page is live: the same address, asked
// for as text/event-stream, sends the versions of its parts when they change, and the
// script fetches the page and swaps those parts.
//
// The package knows the services as an interface, and calls them in the name of the
// Principal in the request's context: it decides nothing about permissions, but does not
// offer what one may not do. It needs no other host, and has no state but its bounds.
package ui
