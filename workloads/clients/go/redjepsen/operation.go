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

// Operation is a requested operation, with its reports to the controller.
type Operation struct {
	// Key is the name of the lock.
	Key string
	// Within is how long to try to acquire the lock.
	Within time.Duration

	client *client
	invoke message
	ctx    context.Context
	end    context.CancelFunc

	mutex     sync.Mutex
	changed   *sync.Cond
	state     int
	early     []facts // reports from before `acquired` was reported: a library may be faster
	lost      string
	opened    []string
	asking    bool // a call of the library to acquire or release the lock is in progress
	cancelled chan struct{}
}

func newOperation(c *client, invoke message) *Operation {
	o := &Operation{client: c, invoke: invoke, Key: "lock:" + invoke.Key, Within: ms(invoke.AcquireTimeoutMs)}
	o.changed, o.cancelled = sync.NewCond(&o.mutex), make(chan struct{})
	o.ctx, o.end = context.WithCancel(context.Background())
	return o
}

// Shared returns whether to acquire the lock for reading.
func (o *Operation) Shared() bool {
	return o.invoke.F == "shared"
}

// Context ends when the operation is cancelled: its caller does not need the lock any more. Pass it to the call that
// acquires the lock. Within Release it is a new context, which ends when the release is cancelled, but not if the
// holder was.
func (o *Operation) Context() context.Context {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.ctx
}

// release makes the library release the lock. If the release is cancelled and fails because of that, it is repeated
// once, as a deferred call would do; the first error is returned.
func (o *Operation) release(held *Held) (err, cancelled error) {
	err = o.releaseOnce(held)
	if err != nil && o.ctx.Err() != nil {
		time.Sleep(time.Duration(o.invoke.ReleaseAgainMs) * time.Millisecond)
		return o.releaseOnce(held), err
	}
	return err, nil
}

// releaseAgain makes the library release the lock a second time, this long after the first, as an error handler behind
// a deferred call would do. It returns the second call's error, which says nothing about a lock that was already
// released.
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
	before := o.end // the lock may live only as long as the context with which it was acquired
	o.ctx, o.end = ctx, func() { before(); end() }
	o.mutex.Unlock()
	return held.Release()
}

// Extended reports, from any goroutine, that the lock was renewed, with its validity if the library gives it, else 0.
func (o *Operation) Extended(validity time.Duration) {
	known := facts{"phase": "extended"}
	if validity > 0 {
		known["validity_ms"] = validity.Milliseconds()
	}
	o.tell(known)
}

// Lost reports, from any goroutine, that the library knows that the lock is lost. Only the first reason counts.
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

// cancel ends the operation's context. If the library is acquiring or releasing the lock, its own result decides.
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

// sleepUntil waits until the deadline, or until the operation is cancelled.
func (o *Operation) sleepUntil(deadline time.Time) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.cancelled:
	}
}

// phase reports a phase, stamped now. At a breakpoint it waits, and then reports the phase again: only then does the
// operation continue.
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
		// If this report fails, the next message fails too, and its error counts.
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

// watched reports a loss as soon as the library knows of it. It also asks the library, if the workload says so, whether
// the client holds the lock. The returned function ends this, and waits until nothing more is reported.
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

// askOwned asks the library whether the client holds the lock. The answer is about the time before the question.
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
