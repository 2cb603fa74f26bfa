package background

import "time"

// begun is about when the process began.
var begun = time.Now()
