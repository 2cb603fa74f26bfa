// Package checktest has CheckRequests for tests, and the input document that each of them
// should become.
//
// [Document] is a plain reading of the specification: it goes through Envoy's descriptors
// and shares no code with what it is compared with. So a field that Envoy adds shows in
// it. The requests are written by hand, random, or taken from a real Envoy.
package checktest
