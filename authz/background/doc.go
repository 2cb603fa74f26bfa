// Package background runs work off the request path: all that a process does next to
// answering requests.
//
// There are two kinds. Many small jobs, such as making an event of a log, go to a [Pool]:
// a bounded queue with a fixed number of workers, which sheds what does not fit, so that
// anyone who offers a job never waits. Between jobs a worker yields to the requests that
// have arrived, by a [Yielder]. Few large works, such as compiling a policy of a
// megabyte, are given to [Run], which uses a thread of lower priority.
package background
