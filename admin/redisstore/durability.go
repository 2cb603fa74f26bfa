package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrNotReadable says that Redis does not let this user call CONFIG GET: many hosted ones
// let no user do so.
var ErrNotReadable = errors.New("the configuration of this Redis cannot be read")

// Durability asks Redis how it keeps what it is given, and returns what may make it lose
// policies that were acknowledged, each with what to do about it. The error wraps
// ErrNotReadable if Redis answers, but not that.
func (s *Store) Durability(ctx context.Context) (risks []string, err error) {
	err = call(ctx, "asking Redis for its configuration", func(ctx context.Context) error {
		risks = nil
		cluster, ok := s.short.(*redis.ClusterClient)
		if !ok {
			risks, err = risksOf(ctx, s.short)
			return err
		}
		// The hash slot of a project may be on any primary, and may move.
		found := make(chan []string, 1)
		found <- nil
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			of, err := risksOf(ctx, node)
			for i := range of {
				of[i] = node.Options().Addr + ": " + of[i]
			}
			found <- append(<-found, of...)
			return err
		})
		risks = <-found
		return err
	})
	if err != nil && isReply(err) && !isTransient(err) {
		return nil, fmt.Errorf("%w: %w", ErrNotReadable, err)
	}
	return risks, err
}

// risksOf asks one server.
func risksOf(ctx context.Context, server redis.Cmdable) ([]string, error) {
	settings := make(map[string]string)
	for _, name := range []string{"maxmemory-policy", "appendonly", "save"} {
		values, err := server.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		settings[name] = values[name]
	}
	var risks []string
	if policy := settings["maxmemory-policy"]; policy != "noeviction" {
		risks = append(risks, fmt.Sprintf("maxmemory-policy is %s: when its memory is full, Redis removes policies; "+
			"set `maxmemory-policy noeviction`", policy))
	}
	if settings["appendonly"] == "no" {
		risks = append(risks, persistenceRisk(settings["save"]))
	}
	return risks, nil
}

// persistenceRisk says what is lost without an append-only file.
func persistenceRisk(save string) string {
	const fix = "; set `appendonly yes`"
	if strings.TrimSpace(save) == "" {
		return "appendonly is no and save is empty: a restart of Redis loses all policies" + fix
	}
	return fmt.Sprintf("appendonly is no and save is %q: when Redis ends, it may lose the changes since its last snapshot", save) + fix
}
