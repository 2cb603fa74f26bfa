//go:build !unix

package background

import "time"

// ProcessorTime is the time since this process began: other systems say in other ways what
// it has used of the processors, which is less.
func ProcessorTime() time.Duration { return time.Since(begun) }
