// redislock: https://github.com/bsm/redislock
package main

import (
	"context"
	"errors"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"redjepsen.invalid/clients/redjepsen"
)

func connect(settings redjepsen.Settings) (redjepsen.Acquire, error) {
	if len(settings.Nodes) != 1 {
		return nil, errors.New("redislock locks on one node: take --nodes 1")
	}
	locker := redislock.New(redis.NewClient(&redis.Options{
		Addr: settings.Nodes[0], DialTimeout: settings.NodeTimeout, ReadTimeout: settings.NodeTimeout,
		WriteTimeout: settings.NodeTimeout, MaxRetries: -1, // a request is not sent again
	}))
	return func(operation *redjepsen.Operation) (*redjepsen.Held, error) {
		ctx, cancel := context.WithTimeout(operation.Context(), operation.Within)
		defer cancel()
		retry := redislock.LinearBackoff(settings.RetryDelay)
		lock, err := locker.Obtain(ctx, operation.Key, settings.TTL, &redislock.Options{RetryStrategy: retry})
		if err != nil {
			return nil, err
		}
		return &redjepsen.Held{
			Release: func() error { return lock.Release(operation.Context()) },
			Owned: func() (bool, error) {
				left, err := lock.TTL(context.Background())
				return left > 0, err
			},
		}, nil
	}, nil
}

func main() {
	redjepsen.Serve(redjepsen.Adapter{Name: "redislock " + redjepsen.Version("github.com/bsm/redislock"), Connect: connect})
}
