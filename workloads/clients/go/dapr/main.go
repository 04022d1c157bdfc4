// The lock building block of Dapr on Redis, as its runtime calls it: https://github.com/dapr/components-contrib/tree/main/lock/redis
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dapr/components-contrib/lock"
	"github.com/dapr/components-contrib/lock/redis"
	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/kit/logger"

	"redjepsen.invalid/clients/redjepsen"
)

func connect(settings redjepsen.Settings) (redjepsen.Acquire, error) {
	if len(settings.Nodes) != 1 || settings.TTL%time.Second != 0 {
		return nil, errors.New("Dapr's lock counts in whole seconds, on one node: take --ttl 1s and --nodes 1")
	}
	store, limit := redis.NewStandaloneRedisLock(logger.NewLogger("lock")), settings.NodeTimeout.String()
	properties := map[string]string{
		"redisHost": settings.Nodes[0], "dialTimeout": limit, "readTimeout": limit, "writeTimeout": limit,
		"redisMaxRetries": "-1", // a request is not sent again
	}
	err := store.InitLockStore(context.Background(), lock.Metadata{Base: metadata.Base{Properties: properties}})
	if err != nil {
		return nil, err
	}
	// The caller of the lock must supply the owner's name.
	owner := 0
	return func(operation *redjepsen.Operation) (*redjepsen.Held, error) {
		owner++
		me := fmt.Sprintf("%d-%d-%d", os.Getpid(), time.Now().UnixNano(), owner)
		wanted := &lock.TryLockRequest{ResourceID: operation.Key, LockOwner: me, ExpiryInSeconds: int32(settings.TTL / time.Second)}
		release := func() error {
			answer, err := store.Unlock(operation.Context(), &lock.UnlockRequest{ResourceID: operation.Key, LockOwner: me})
			if err == nil && answer.Status != lock.Success {
				return fmt.Errorf("unlock: status %d", answer.Status)
			}
			return err
		}
		for deadline := time.Now().Add(operation.Within); time.Now().Before(deadline); time.Sleep(settings.RetryDelay) {
			answer, err := store.TryLock(context.Background(), wanted)
			if err != nil {
				return nil, err
			}
			if answer.Success {
				return &redjepsen.Held{Release: release}, nil
			}
		}
		return nil, nil
	}, nil
}

func main() {
	redjepsen.Serve(redjepsen.Adapter{Name: "Dapr lock.redis " + redjepsen.Version("github.com/dapr/components-contrib"), Connect: connect})
}
