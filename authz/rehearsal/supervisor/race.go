//go:build race

package supervisor

// detector is how many times as much processor time, and of the system's memory, the race
// detector has a process take. The memory that the Go runtime counts is hardly more.
const detector = 8
