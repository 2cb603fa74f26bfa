// Package supervisor has the rehearsal process, in which what is not live is compiled and
// evaluated.
//
// A [Supervisor] has one child process, the rehearsal process, which compiles and evaluates
// candidates, whatever the admin API is asked to accept, and live decisions that are
// verified. Go cannot end an evaluation, nor bound its memory, nor keep it from the
// processors that the traffic needs; an operating system can do all three to a process.
//
// What the child is asked is a task. The tasks of one policy are a lane: they wait in a
// queue of their own, and are done one after the other. So a lane that takes long holds up
// nobody else, and if the child dies, the tasks at the heads of the lanes are the suspects:
// if there are several, each is tried alone in the next child. A lane that ends the child
// three times within ten minutes is suspended.
//
// Examinations, which are about a decision and none themselves, have a room of their own in
// each lane. While the child has decisions to make, they have a fifth of its time at most.
//
// Of the decisions that a candidate has sent, equal ones are read once.
//
// Nothing here is on the request path.
package supervisor
