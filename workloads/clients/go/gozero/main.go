// go-zero's RedisLock: https://github.com/zeromicro/go-zero/tree/master/core/stores/redis
package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/stores/redis"

	"redjepsen.invalid/clients/redjepsen"
)

// The library adds this time to the requested whole seconds of a lock's TTL.
const tolerance = 500 * time.Millisecond

func connect(settings redjepsen.Settings) (redjepsen.Acquire, error) {
	seconds := (settings.TTL - tolerance) / time.Second
	if len(settings.Nodes) != 1 || settings.TTL != seconds*time.Second+tolerance {
		return nil, fmt.Errorf("RedisLock lives for whole seconds and a half, on one node: take --ttl 1500ms, not %v", settings.TTL)
	}
	logx.Disable() // it prints to standard output
	// The time limit of a request and its repetitions cannot be set: 3 s, and up to three more attempts.
	store, err := redis.NewRedis(redis.RedisConf{Host: settings.Nodes[0], Type: redis.NodeType})
	if err != nil {
		return nil, err
	}
	return func(operation *redjepsen.Operation) (*redjepsen.Held, error) {
		lock := redis.NewRedisLock(store, operation.Key)
		lock.SetExpire(int(seconds))
		for deadline := time.Now().Add(operation.Within); time.Now().Before(deadline); time.Sleep(settings.RetryDelay) {
			if taken, err := lock.Acquire(); taken || err != nil {
				return held(operation, lock), err
			}
		}
		return nil, nil
	}, nil
}

func held(operation *redjepsen.Operation, lock *redis.RedisLock) *redjepsen.Held {
	return &redjepsen.Held{Release: func() error {
		released, err := lock.ReleaseCtx(operation.Context())
		if err == nil && !released {
			return errors.New("it was not the holder's any more")
		}
		return err
	}}
}

func main() {
	redjepsen.Serve(redjepsen.Adapter{Name: "go-zero RedisLock " + redjepsen.Version("github.com/zeromicro/go-zero"), Connect: connect})
}
