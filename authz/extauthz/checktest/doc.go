// Package checktest has CheckRequests for tests, and the input document that each of
// them should become.
//
//	requests: by hand (HTTP, Istio), random (Fill, RandomWire), of a real Envoy (Envoy)
//	    |                                  |
//	code under test                   Document: the plain reading
//	    |                                  |
//	    +----------- Difference -----------+
//
// [Document] is a plain reading of the specification: it goes through Envoy's
// descriptors and shares no code with what it is compared with. So a field that Envoy
// adds shows in it. If both had one author's misunderstanding in common code, no
// comparison could find it.
package checktest
