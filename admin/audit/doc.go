// Package audit records who changed what through the admin API: one OpenTelemetry log event,
// understudy.admin.audit, for each call that changes something, or was to.
//
// A call passes three places. Its edge (REST, gRPC, the Policyfile API) begins an [Entry] and
// puts it into the context; the domain writes into it what it alone knows: the resource, its
// etags before and after, the operation, to whom which role was given, which fields of a
// configuration have changed; and the edge ends it with the outcome, by which the [Recorder]
// writes the event. So a call that is refused, fails or panics has its event, too.
//
// What changes nothing is minor: calls that are refused, fail, only validate or find that all is
// so already. Anyone who may change nothing can make as many of them as he likes, so the first of
// a principal, method and outcome in a second is an event, and the others are a number in a
// later one. Requests of which nobody knows who sends them never become calls: they are
// counted, and one event a second stands for all of them.
//
// An event names the principal, and never holds a credential, a header, a body or a query. A
// resource is named if what the caller sent has the form of a name.
//
// Events wait for their export in a bounded queue, in which minor events have slots of their
// own. By default an event that finds no slot is dropped and counted. With Config.Required the
// domain takes the slot of a change before it changes the store ([Entry.Reserve]), and without
// one changes nothing. Reads are not recorded.
package audit
