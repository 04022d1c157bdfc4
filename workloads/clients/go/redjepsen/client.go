// Package redjepsen does everything that docs/client-protocol.md asks of a client, except the lock itself. It needs no
// other package. If the run wants threads, each is a goroutine, and all get their locks from the same Acquire.
package redjepsen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	newest     = 2                // the newest version of the protocol
	limit      = 2 * time.Second  // for a request to the resource, which is not under test
	startLimit = 20 * time.Second // a client may start in the middle of a fault
	doubtLimit = 60 * time.Second // how long a holder waits until its write cannot arrive any more: longer than a fault lasts
	again      = 20 * time.Millisecond
	longest    = 1 << 20
	warmUpTake = 2 * time.Second // to acquire a lock for the first time
	warmUpEnds = 5 * time.Second // and to release it
)

const (
	extendFlag  = "extend"
	extendAfter = 0.6 // of its TTL
)

// Settings describes the lock to acquire.
type Settings struct {
	TTL time.Duration
	// Nodes has the addresses of independent nodes, such as 10.0.0.1:6379.
	Nodes []string
	// NodeTimeout is the time limit of a request to one node.
	NodeTimeout time.Duration
	// RetryDelay is the approximate wait between two attempts.
	RetryDelay time.Duration
	// Permits is the number of clients that may hold a lock at once: more than one for a semaphore.
	Permits int
	// Client is the client's name in the run, such as c3.
	Client string
	// Flags has the adapter's options that were given on its command line, without dashes.
	Flags map[string]bool
}

// Adapter describes an adapter. With the flag "extend", which needs Held.Extend, a lock is held for longer than its TTL
// and extended meanwhile.
type Adapter struct {
	Name string
	// Flags are the options that it has on its command line, without dashes.
	Flags   []string
	Connect func(Settings) (Acquire, error)
	// Shared says that the adapter can also acquire the lock for reading, together with other readers, if
	// Operation.Shared is true.
	Shared bool
}

// Held is a lock that the library granted, with the functions that the library has for it.
type Held struct {
	Release func() error
	// Validity returns how long the library says that the lock is valid from now; nil if it does not say.
	Validity func() time.Duration
	// Lost is closed once the library knows that the lock is lost; nil if the library does not say. A release may close
	// it too.
	Lost <-chan struct{}
	// Token is the fencing token, if the library has one.
	Token *uint64
	// Extend renews the lock. It returns the new validity, or 0 if the library gives none; an error means that the lock
	// is lost.
	Extend func() (time.Duration, error)
	// Check is called before the write, for libraries that ask their users to check. An error means that the lock is
	// lost.
	Check func() error
	// Owned returns whether the library says that this client holds the lock. It is called as often as the workload
	// says (`check_every`), and then before the write too. False means that the lock is lost; an error means that there
	// was no answer.
	Owned func() (bool, error)

	mutex sync.Mutex // Owned is called from one goroutine at a time
}

// ErrNotOwned is the error that Release returns, wrapped or not, if the library says that the lock was no longer this
// client's.
var ErrNotOwned = errors.New("the lock was no longer this client's")

// Acquire acquires the lock of an operation. Nil, or an error, means that it was not acquired.
type Acquire func(*Operation) (*Held, error)

type hello struct {
	Protocol int    `json:"protocol"`
	Threads  int    `json:"threads"`
	Client   string `json:"client"`
	// KeyPrefix is the prefix of the names of the client's own keys.
	KeyPrefix string `json:"key_prefix"`
	Lock      struct {
		TTLMs   int64           `json:"ttl_ms"`
		Nodes   []string        `json:"nodes"`
		Group   json.RawMessage `json:"group"`
		Options struct {
			NodeTimeoutMs int64   `json:"node_timeout_ms"`
			RetryDelayMs  []int64 `json:"retry_delay_ms"`
			Permits       int     `json:"permits"`
		} `json:"options"`
	} `json:"lock"`
	Resource struct {
		Kind    string `json:"kind"`
		URL     string `json:"url"`
		Fencing string `json:"fencing"`
	} `json:"resource"`
}

type message struct {
	Type             string   `json:"type"`
	ID               int64    `json:"id"`
	Thread           int      `json:"thread"`
	Phase            string   `json:"phase"`
	F                string   `json:"f"`
	Key              string   `json:"key"`
	Value            string   `json:"value"`
	HoldMs           int64    `json:"hold_ms"`
	AcquireTimeoutMs int64    `json:"acquire_timeout_ms"`
	CheckEveryMs     int64    `json:"check_every_ms"`
	ReleaseAgainMs   int64    `json:"release_again_ms"`
	Breakpoints      []string `json:"breakpoints"`
}

type facts map[string]any

// client is the process: the part that all its threads share.
type client struct {
	in       *bufio.Reader
	out      io.Writer
	writing  sync.Mutex // locked while writing to out
	acquire  Acquire
	settings Settings
	// Operations that are not over, by id.
	mutex      sync.Mutex
	operations map[int64]*Operation
}

// worker performs one operation after another.
type worker struct {
	*client
	register *register
	next     chan *Operation
}

// Version returns the version of a module that this program is built with, such as 4.18.1; empty if the program does
// not contain it.
func Version(module string) string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, built := range build.Deps {
		if built.Path == module {
			return strings.TrimPrefix(built.Version, "v")
		}
	}
	return ""
}

// Serve runs the client on standard input and output until the controller says bye; then it ends the process.
func Serve(adapter Adapter) {
	c := &client{in: bufio.NewReaderSize(os.Stdin, longest), out: os.Stdout, operations: map[int64]*Operation{}}
	os.Stdout = os.Stderr // the library's output is not a message
	end(c.run(adapter))
}

func end(err error) {
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c *client) run(adapter Adapter) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	var first hello
	if err := json.Unmarshal(line, &first); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	flags, err := given(adapter.Flags)
	var workers []*worker
	if err == nil {
		workers, err = c.start(first, flags, adapter.Connect)
	}
	if err != nil {
		return c.say(facts{"type": "failed", "text": err.Error()})
	}
	name, capabilities := adapter.Name, []string{}
	if len(flags) > 0 {
		said := []string{}
		for flag := range flags {
			said = append(said, flag)
		}
		slices.Sort(said)
		name += " (" + strings.Join(said, ", ") + ")"
	}
	if first.Protocol > 1 {
		capabilities = []string{"threads", "cancel", "release-again"}
		if adapter.Shared {
			capabilities = append(capabilities, "shared")
		}
	}
	ready := facts{"type": "ready", "protocol": first.Protocol, "name": name, "capabilities": capabilities}
	if err := c.say(ready); err != nil {
		return err
	}
	for _, worker := range workers {
		go worker.work()
	}
	return c.listen(workers)
}

// listen reads the messages, and passes each to its operation.
func (c *client) listen(workers []*worker) error {
	for {
		next, err := c.next()
		if err != nil {
			return err
		}
		c.mutex.Lock()
		known := c.operations[next.ID] // nil for an operation that is over
		c.mutex.Unlock()
		switch {
		case next.Type == "invoke" && next.Thread < len(workers):
			operation := newOperation(c, next)
			c.mutex.Lock()
			c.operations[next.ID] = operation
			c.mutex.Unlock()
			workers[next.Thread].next <- operation
		case next.Type == "go":
			if known != nil {
				known.open(next.Phase)
			}
		case next.Type == "cancel":
			if known != nil {
				known.cancel()
			}
		default:
			return fmt.Errorf("the controller sent %s", next.Type)
		}
	}
}

func (w *worker) work() {
	for operation := range w.next {
		answer, err := w.perform(operation)
		if err == nil {
			answer["id"] = operation.invoke.ID
			w.mutex.Lock()
			delete(w.operations, operation.invoke.ID)
			w.mutex.Unlock()
			err = operation.answer(answer)
		}
		if err != nil {
			end(err)
		}
	}
}

func given(known []string) (map[string]bool, error) {
	flags := map[string]bool{}
	for _, argument := range os.Args[1:] {
		flag := strings.TrimLeft(argument, "-")
		if !slices.Contains(known, flag) {
			return nil, fmt.Errorf("unknown option %s of the adapter; it has %v", argument, known)
		}
		flags[flag] = true
	}
	return flags, nil
}

func (c *client) start(first hello, flags map[string]bool, connect func(Settings) (Acquire, error)) ([]*worker, error) {
	lock, resource := first.Lock, first.Resource
	if first.Protocol < 1 || first.Protocol > newest {
		return nil, fmt.Errorf("this client speaks protocol 1 to %d, not %d", newest, first.Protocol)
	}
	if !slices.Contains(kinds, resource.Kind) || !slices.Contains(fencings, resource.Fencing) {
		return nil, fmt.Errorf("this client knows the resources %v fenced by %v, not %s %s", kinds, fencings, resource.Kind,
			resource.Fencing)
	}
	if len(lock.Group) > 0 {
		return nil, errors.New("this client takes nodes that are independent of each other")
	}
	settings := Settings{
		TTL: ms(lock.TTLMs), NodeTimeout: ms(lock.Options.NodeTimeoutMs), RetryDelay: 30 * time.Millisecond,
		Permits: max(lock.Options.Permits, 1), Client: first.Client, Flags: flags,
	}
	if settings.NodeTimeout == 0 {
		settings.NodeTimeout = settings.TTL
	}
	if delay := lock.Options.RetryDelayMs; len(delay) == 2 {
		settings.RetryDelay = ms(delay[0]+delay[1]) / 2
	}
	for _, node := range lock.Nodes {
		place, err := url.Parse(node)
		if err != nil {
			return nil, err
		}
		settings.Nodes = append(settings.Nodes, place.Host)
	}
	place, err := url.Parse(resource.URL)
	if err != nil {
		return nil, err
	}
	var workers []*worker
	for range max(1, first.Threads) {
		w := &worker{client: c, next: make(chan *Operation, 1)}
		w.register = &register{address: place.Host, kind: resource.Kind, fencing: resource.Fencing}
		if resource.Kind != "none" {
			if err := reached(w.register.connect); err != nil {
				return nil, err
			}
		}
		workers = append(workers, w)
	}
	c.settings = settings
	err = reached(func() error {
		c.acquire, err = connect(settings)
		return err
	})
	if err == nil {
		c.warmUp(first.KeyPrefix + "warm-up:" + first.Client)
	}
	return workers, err
}

// warmUp acquires a lock of its own and releases it. The first lock connects and loads the library's scripts into the
// nodes, which must not count towards an operation. A node may be down just now, so a failure does not prevent the
// start.
func (c *client) warmUp(key string) {
	ended := make(chan error, 1)
	go func() {
		nobodys := newOperation(c, message{})
		nobodys.state, nobodys.Key, nobodys.Within = over, key, warmUpTake
		held, err := c.acquire(nobodys)
		if err == nil && held != nil {
			err = held.Release()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			fmt.Fprintln(os.Stderr, "warm-up:", err)
		}
	case <-time.After(warmUpEnds):
		fmt.Fprintln(os.Stderr, "warm-up: no answer within", warmUpEnds)
	}
}

func (w *worker) perform(operation *Operation) (facts, error) {
	invoke := operation.invoke
	switch invoke.F {
	case "read":
		text, err := w.register.read(invoke.Key, nil)
		if err != nil {
			return fail("unavailable", err), nil
		}
		old, err := w.register.understood(text)
		if err != nil {
			return fail("unsupported", err), nil
		}
		return old.into("old", facts{"type": "ok"}), nil
	case "rmw", "shared", "hold":
		if invoke.F != "hold" && w.register.kind == "none" {
			break
		}
		return w.locked(operation)
	}
	return failed("unsupported", invoke.F), nil
}

func (w *worker) locked(operation *Operation) (facts, error) {
	if err := operation.phase("acquiring", nil); err != nil {
		return nil, err
	}
	operation.asks(true)
	held, err := w.acquire(operation)
	operation.asks(false)
	refused := "not-acquired"
	if operation.ctx.Err() != nil {
		refused = "cancelled"
	}
	if err != nil {
		return fail(refused, err), nil
	}
	if held == nil {
		return failed(refused, ""), nil
	}
	if w.settings.Flags[extendFlag] && held.Extend == nil {
		return nil, errors.New("--extend needs Held.Extend")
	}
	known := facts{}
	if held.Validity != nil {
		known["validity_ms"] = max(0, held.Validity().Milliseconds())
	}
	if held.Token != nil {
		known["token"] = *held.Token
	}
	watch := operation.watched(held)
	defer watch()
	if err := operation.phase("acquired", known); err != nil {
		return nil, err
	}
	answer, settled, err := w.underLock(operation, held)
	if err != nil || !settled {
		return answer, err
	}
	watch()
	if err := operation.phase("releasing", nil); err != nil {
		return nil, err
	}
	err, cancelled := operation.release(held)
	if cancelled != nil && answer["type"] == "ok" {
		answer = facts{"type": "info", "error": "cancelled", "text": cancelled.Error()}
	}
	again := operation.invoke.ReleaseAgainMs
	if cancelled == nil && again > 0 {
		refused, err := operation.releaseAgain(held, err, time.Duration(again)*time.Millisecond)
		if refused != nil && answer["type"] == "ok" {
			answer["text"] = "released again: " + refused.Error()
		}
		return answer, err
	}
	if err != nil {
		// It is unknown whether the lock is free, so `released` is not reported.
		fmt.Fprintln(os.Stderr, "release:", err)
		// The first release may be the reason why the lock is no longer this client's.
		if cancelled == nil && errors.Is(err, ErrNotOwned) {
			operation.Lost(err.Error())
		}
		return answer, nil
	}
	return answer, operation.phase("released", nil)
}

// underLock does the work under the lock. It returns the answer, and whether the lock may be released afterwards.
func (w *worker) underLock(operation *Operation, held *Held) (facts, bool, error) {
	invoke, cancelled := operation.invoke, failed("cancelled", "before it wrote")
	if operation.isCancelled() {
		return cancelled, true, nil
	}
	if invoke.F == "hold" {
		w.think(operation, held)
		if operation.isCancelled() {
			return cancelled, true, nil
		}
		return facts{"type": "ok"}, true, nil
	}
	text, err := w.register.read(invoke.Key, held.Token)
	if err != nil {
		return fail(wordOf(err), err), true, nil
	}
	old, err := w.register.understood(text)
	if err != nil {
		return fail("unsupported", err), true, nil
	}
	if err := operation.phase("read", old.into("value", facts{})); err != nil {
		return nil, false, err
	}
	w.think(operation, held)
	if operation.isCancelled() {
		return cancelled, true, nil
	}
	if held.Check != nil && operation.whyLost() == "" {
		held.mutex.Lock()
		err := held.Check()
		held.mutex.Unlock()
		if err != nil {
			operation.Lost(err.Error())
		}
	}
	if operation.asksOwned(held) && operation.whyLost() == "" {
		operation.askOwned(held)
	}
	if lost := operation.whyLost(); lost != "" {
		return failed("lock-lost", lost), true, nil
	}
	if operation.Shared() {
		return old.into("old", facts{"type": "ok"}), true, nil
	}
	if err := operation.phase("before-write", nil); err != nil {
		return nil, false, err
	}
	if operation.isCancelled() {
		return cancelled, true, nil
	}
	if err := w.register.connect(); err != nil {
		return fail("unavailable", err), true, nil
	}
	err = w.register.write(invoke.Key, text, old, invoke.Value, held.Token)
	var no refused
	if errors.As(err, &no) {
		return fail(wordOf(err), err), true, nil
	}
	if err != nil {
		// It is unknown whether the write took effect, or will. The lock is kept until the write cannot arrive any
		// more.
		word := "connection-lost"
		if errors.Is(err, os.ErrDeadlineExceeded) {
			word = "timeout"
		}
		return facts{"type": "info", "error": word, "text": err.Error()}, w.register.cutOff(), nil
	}
	if err := operation.phase("written", nil); err != nil {
		return nil, false, err
	}
	return old.into("old", facts{"type": "ok", "new": invoke.Value}), true, nil
}

// think waits for the operation's hold time; with the flag, for longer than the TTL, and extends the lock meanwhile.
func (w *worker) think(operation *Operation, held *Held) {
	until := time.Now().Add(ms(operation.invoke.HoldMs))
	if w.settings.Flags[extendFlag] {
		until = until.Add(w.settings.TTL)
		every := time.Duration(float64(w.settings.TTL) * extendAfter)
		for due := time.Now().Add(every); due.Before(until); due = time.Now().Add(every) {
			operation.sleepUntil(due)
			if operation.isCancelled() || operation.whyLost() != "" {
				break
			}
			held.mutex.Lock()
			validity, err := held.Extend()
			held.mutex.Unlock()
			if err != nil {
				operation.Lost(err.Error())
			} else {
				operation.Extended(validity)
			}
		}
	}
	operation.sleepUntil(until)
}

func (c *client) line() ([]byte, error) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return nil, io.EOF
	}
	return line, nil
}

func (c *client) next() (message, error) {
	line, err := c.line()
	if err != nil {
		return message{}, err
	}
	var next message
	if err := json.Unmarshal(line, &next); err != nil {
		return next, fmt.Errorf("%w: %s", err, line)
	}
	if next.Type == "bye" {
		return next, io.EOF
	}
	return next, nil
}

func (c *client) say(what facts) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.out.Write(append(line, '\n')); err != nil {
		return io.EOF
	}
	return nil
}

func fail(word string, err error) facts {
	return failed(word, err.Error())
}

func failed(word, text string) facts {
	return facts{"type": "fail", "error": word, "text": text}
}

func ms(number int64) time.Duration {
	return time.Duration(number) * time.Millisecond
}

// monotonic returns CLOCK_MONOTONIC in nanoseconds, which package time does not expose.
func monotonic() int64 {
	var now syscall.Timespec
	const clockMonotonic = 1
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func reached(attempt func() error) error {
	for deadline := time.Now().Add(startLimit); ; time.Sleep(again) {
		err := attempt()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
