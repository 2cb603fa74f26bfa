package terminal

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// When is a time in the zone of anyone who reads it, or - if there is none.
func When(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format(time.DateTime)
}

// Since is the time from a moment until now, in whole seconds.
func Since(t time.Time) string {
	return max(0, time.Since(t)).Truncate(time.Second).String() + " ago"
}
