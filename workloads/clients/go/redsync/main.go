// redsync: https://github.com/go-redsync/redsync
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"redjepsen.invalid/clients/redjepsen"
)

func connect(settings redjepsen.Settings) (redjepsen.Acquire, error) {
	var pools []redis.Pool
	for _, node := range settings.Nodes {
		pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{
			Addr: node, DialTimeout: settings.NodeTimeout, ReadTimeout: settings.NodeTimeout, WriteTimeout: settings.NodeTimeout,
			MaxRetries: -1, // a request is not sent again
		})))
	}
	manager := redsync.New(pools...)
	return func(operation *redjepsen.Operation) (*redjepsen.Held, error) {
		ctx, cancel := context.WithTimeout(operation.Context(), operation.Within)
		defer cancel()
		tries := max(1, int(operation.Within/settings.RetryDelay))
		mutex := manager.NewMutex(operation.Key, redsync.WithExpiry(settings.TTL), redsync.WithTries(tries),
			redsync.WithRetryDelay(settings.RetryDelay))
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		release := func() error {
			done, err := mutex.UnlockContext(operation.Context())
			if done {
				return nil
			}
			// The library says nothing about a node that did not answer.
			var unanswered *redsync.RedisError
			if errors.As(err, &unanswered) {
				return err
			}
			return fmt.Errorf("%w: %v", redjepsen.ErrNotOwned, err)
		}
		return &redjepsen.Held{
			Release:  release,
			Validity: func() time.Duration { return time.Until(mutex.Until()) },
			Owned:    func() (bool, error) { return time.Now().Before(mutex.Until()), nil },
		}, nil
	}, nil
}

func main() {
	redjepsen.Serve(redjepsen.Adapter{Name: "redsync " + redjepsen.Version("github.com/go-redsync/redsync/v4"), Connect: connect})
}
