package terminal

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

func When(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format(time.DateTime)
}

func LastSegment(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// Since is the time from a moment until now, in whole seconds.
func Since(t time.Time) string {
	return max(0, time.Since(t)).Truncate(time.Second).String() + " ago"
}
