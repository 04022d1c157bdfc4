package redjepsen

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	acquiring = iota
	holding
	over
)

// Operation is what is asked for, and how the controller hears of it.
type Operation struct {
	// Key is the name of the lock.
	Key string
	// Within says how long to try to get it.
	Within time.Duration

	client *client
	invoke message
	ctx    context.Context
	end    context.CancelFunc

	mutex     sync.Mutex
	changed   *sync.Cond
	state     int
	early     []facts // what was told before `acquired` was said: a library may be faster
	lost      string
	opened    []string
	asking    bool // the library is just asked for the lock
	cancelled chan struct{}
}

func newOperation(c *client, invoke message) *Operation {
	o := &Operation{client: c, invoke: invoke, Key: "lock:" + invoke.Key, Within: ms(invoke.AcquireTimeoutMs)}
	o.changed, o.cancelled = sync.NewCond(&o.mutex), make(chan struct{})
	o.ctx, o.end = context.WithCancel(context.Background())
	return o
}

// Shared says whether the lock is wanted for reading.
func (o *Operation) Shared() bool {
	return o.invoke.F == "shared"
}

// Context ends when the operation is cancelled: whoever asked for the lock has no use for it any more. Give it to the call
// that takes the lock. Within Release it is another one, which ends when that is cancelled, and not if the holder was.
func (o *Operation) Context() context.Context {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.ctx
}

// release has the library give the lock back. If it is cancelled meanwhile and ends by that, it is asked once more, as a
// deferred call would, and the first error is told.
func (o *Operation) release(held *Held) (err, cancelled error) {
	err = o.releaseOnce(held)
	if err != nil && o.ctx.Err() != nil {
		time.Sleep(time.Duration(o.invoke.ReleaseAgainMs) * time.Millisecond)
		return o.releaseOnce(held), err
	}
	return err, nil
}

// releaseAgain has the library give the lock back a second time, so long after the first, as an error handler does behind a
// deferred call. It says what the second one said, which is no word on a lock that was given back.
func (o *Operation) releaseAgain(held *Held, first error, after time.Duration) (refused, err error) {
	if first != nil {
		fmt.Fprintln(os.Stderr, "release:", first)
	} else if err := o.phase("released", nil); err != nil {
		return nil, err
	}
	time.Sleep(after)
	if refused := o.releaseOnce(held); refused != nil {
		fmt.Fprintln(os.Stderr, "release again:", refused)
		return refused, nil
	}
	if first == nil {
		return nil, nil
	}
	return nil, o.phase("released", nil)
}

func (o *Operation) releaseOnce(held *Held) error {
	ctx, end := context.WithCancel(context.Background())
	o.mutex.Lock()
	before := o.end // the lock may live as long as the context that it was taken with
	o.ctx, o.end = ctx, func() { before(); end() }
	o.mutex.Unlock()
	return held.Release()
}

// Extended tells, from any goroutine, that the lock was renewed, and for how long if the library says so, else 0.
func (o *Operation) Extended(validity time.Duration) {
	known := facts{"phase": "extended"}
	if validity > 0 {
		known["validity_ms"] = validity.Milliseconds()
	}
	o.tell(known)
}

// Lost tells, from any goroutine, that the library knows that the lock is gone. Only the first reason counts.
func (o *Operation) Lost(reason string) {
	o.mutex.Lock()
	first := o.lost == "" && o.state != over
	if first {
		o.lost = reason
	}
	o.mutex.Unlock()
	if first {
		o.tell(facts{"phase": "lost", "text": reason})
	}
}

func (o *Operation) whyLost() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.lost
}

// cancel ends its context. A library that is just asked for the lock says what it makes of that.
func (o *Operation) cancel() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if !o.asking && !o.isCancelled() {
		close(o.cancelled)
	}
	o.end()
	o.changed.Broadcast()
}

func (o *Operation) isCancelled() bool {
	select {
	case <-o.cancelled:
		return true
	default:
		return false
	}
}

func (o *Operation) asks(yes bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.asking = yes
}

func (o *Operation) open(phase string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.opened = append(o.opened, phase)
	o.changed.Broadcast()
}

// sleepUntil waits until then, or until it is cancelled.
func (o *Operation) sleepUntil(deadline time.Time) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.cancelled:
	}
}

// phase reports a phase, stamped now. At a breakpoint it waits, and reports it again: only then does what comes next
// happen.
func (o *Operation) phase(name string, known facts) error {
	if err := o.report(name, known); err != nil || !slices.Contains(o.invoke.Breakpoints, name) {
		return err
	}
	o.mutex.Lock()
	for !slices.Contains(o.opened, name) {
		if o.isCancelled() {
			o.mutex.Unlock()
			return nil
		}
		o.changed.Wait()
	}
	o.mutex.Unlock()
	return o.report(name, known)
}

func (o *Operation) report(name string, known facts) error {
	told := facts{"phase": name}
	for key, value := range known {
		told[key] = value
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	err := o.say(told)
	switch name {
	case "acquired":
		o.state = holding
		for _, early := range o.early {
			_ = o.say(early)
		}
		o.early = nil
	case "released":
		o.state = over
	}
	return err
}

func (o *Operation) tell(known facts) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	switch o.state {
	case holding:
		// If it cannot be said, neither can the next message, whose error counts.
		_ = o.say(known)
	case acquiring:
		o.early = append(o.early, known)
	}
}

func (o *Operation) say(known facts) error {
	known["type"], known["id"] = "phase", o.invoke.ID
	if known["mono_ns"] == nil {
		known["mono_ns"] = monotonic()
	}
	return o.client.say(known)
}

func (o *Operation) answer(answer facts) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.state = over
	o.end()
	return o.client.say(answer)
}

const lostText = "the library says that the lock is lost"

// watched tells the controller of a loss as soon as the library knows of it, and asks the library, where the workload says
// so, whether the client has the lock. What is returned ends that, and waits until nothing more is told.
func (o *Operation) watched(held *Held) func() {
	stopped, ended := make(chan struct{}), make(chan struct{})
	stop := sync.OnceFunc(func() { close(stopped) })
	go func() {
		defer close(ended)
		var due <-chan time.Time
		if o.asksOwned(held) {
			ticker := time.NewTicker(ms(o.invoke.CheckEveryMs))
			defer ticker.Stop()
			due = ticker.C
		}
		for o.whyLost() == "" {
			select {
			case <-stopped:
				return
			case <-held.Lost:
				o.Lost(lostText)
			case <-due:
				o.askOwned(held)
			}
		}
	}()
	return func() {
		stop()
		<-ended
	}
}

func (o *Operation) asksOwned(held *Held) bool {
	return held.Owned != nil && o.invoke.CheckEveryMs > 0
}

// askOwned asks the library whether the client has the lock. What it says is of the time before it was asked.
func (o *Operation) askOwned(held *Held) {
	held.mutex.Lock()
	defer held.mutex.Unlock()
	asked := monotonic()
	switch owned, err := held.Owned(); {
	case err != nil:
		fmt.Fprintln(os.Stderr, "owned:", err)
	case owned:
		o.tell(facts{"phase": "owned", "mono_ns": asked})
	default:
		o.Lost("it is no longer owned")
	}
}
