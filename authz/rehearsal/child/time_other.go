//go:build !unix

package child

import "time"

var begun = time.Now()

// processorTime is the time since the process began: other systems say it in other ways,
// and there the child has no lower priority.
func processorTime() time.Duration { return time.Since(begun) }
