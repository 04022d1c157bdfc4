// rueidislock: https://github.com/redis/rueidis/tree/main/rueidislock
package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"redjepsen.invalid/clients/redjepsen"
)

func connect(settings redjepsen.Settings) (redjepsen.Acquire, error) {
	if len(settings.Nodes) != 1 {
		return nil, errors.New("rueidislock locks on one node: take --nodes 1")
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyValidity: settings.TTL,
		ClientOption: rueidis.ClientOption{
			InitAddress: settings.Nodes, ForceSingleClient: true, Dialer: net.Dialer{Timeout: settings.NodeTimeout},
			ConnWriteTimeout: settings.NodeTimeout,
			DisableRetry:     true, // a request is not sent again
		},
	})
	if err != nil {
		return nil, err
	}
	return func(operation *redjepsen.Operation) (*redjepsen.Held, error) {
		// The lock lives only as long as the context of its request, so only the wait is limited.
		asked, giveUp := context.WithCancel(operation.Context())
		limit := time.AfterFunc(operation.Within, giveUp)
		held, release, err := locker.WithContext(asked, operation.Key)
		limit.Stop()
		if err != nil {
			giveUp()
			return nil, err
		}
		return &redjepsen.Held{
			Release: func() error { release(); giveUp(); return nil },
			Lost:    held.Done(),
			Owned:   func() (bool, error) { return held.Err() == nil, nil },
		}, nil
	}, nil
}

func main() {
	redjepsen.Serve(redjepsen.Adapter{Name: "rueidislock " + redjepsen.Version("github.com/redis/rueidis"), Connect: connect})
}
