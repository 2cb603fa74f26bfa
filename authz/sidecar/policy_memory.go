package sidecar

import (
	"context"
	"log/slog"
	"math"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
)

const (
	// memoryPerByte is about how much memory a followed policy takes for each byte of its record, if that is mostly
	// rules: 20 bytes stay, and half of that again is what compiling leaves behind. Data takes less.
	memoryPerByte = 30
	// memoryAtRest is about how much the process has in use without any policy, in bytes.
	memoryAtRest = 40 << 20
)

// memoryOf estimates what the process needs for the policies of an update, in bytes.
func memoryOf(update authz.Update) uint64 {
	size := 0
	for _, state := range update.Policies {
		size += proto.Size(state.Policy)
	}
	return memoryAtRest + memoryPerByte*uint64(size)
}

// warnOfMemory logs that the policies of an update may need more memory than the process may have, the limit in bytes: before they are
// compiled, since nobody says so afterwards.
func (s *Sidecar) warnOfMemory(update authz.Update, limit uint64) {
	needs := memoryOf(update)
	if limit == math.MaxInt64 || needs <= limit {
		return
	}
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "the policies may need more memory than the process may have: give it more, or follow fewer of them (--policies)",
		slog.Int("policies", len(update.Policies)), slog.Uint64("estimate", needs), slog.Uint64("limit", limit))
}
