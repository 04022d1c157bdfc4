// Package redjepsen is what docs/client-protocol.md asks of a client, apart from the lock itself. It needs no other
// package. There are no counters, lists and fencing here, which the package in Python has.
package redjepsen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	protocol   = 1
	limit      = 2 * time.Second  // for a request to the resource, which is not what is under test
	startLimit = 20 * time.Second // a client may start in the middle of a fault
	doubtLimit = 60 * time.Second // a holder waits until its write cannot arrive any more: longer than a fault lasts
	again      = 20 * time.Millisecond
	longest    = 1 << 20
	warmUpTake = 2 * time.Second // to take a lock for the first time
	warmUpEnds = 5 * time.Second // and to give it back
)

// Settings is the lock that is to be taken.
type Settings struct {
	TTL time.Duration
	// Nodes has the addresses of independent nodes, such as 10.0.0.1:6379.
	Nodes []string
	// NodeTimeout says how long a request to one node may take.
	NodeTimeout time.Duration
	// RetryDelay is about how long to wait between two attempts.
	RetryDelay time.Duration
}

// Held is a lock that the library gave.
type Held struct {
	Release func() error
	// Validity says for how long the library says that the lock is valid from now; nil if it does not say.
	Validity func() time.Duration
	// Lost is closed once the library knows that the lock is gone; nil if it does not tell. A release may close it too.
	Lost <-chan struct{}
}

// ErrNotOwned is what Release returns, wrapped or not, if the library says that the lock was no longer this client's.
var ErrNotOwned = errors.New("the lock was no longer this client's")

// Acquire takes the lock of this name within about this time. Nil, or an error, means that it did not get it.
type Acquire func(name string, within time.Duration) (*Held, error)

type hello struct {
	Protocol int    `json:"protocol"`
	Client   string `json:"client"`
	Lock     struct {
		TTLMs   int64           `json:"ttl_ms"`
		Nodes   []string        `json:"nodes"`
		Group   json.RawMessage `json:"group"`
		Options struct {
			NodeTimeoutMs int64   `json:"node_timeout_ms"`
			RetryDelayMs  []int64 `json:"retry_delay_ms"`
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
	Phase            string   `json:"phase"`
	F                string   `json:"f"`
	Key              string   `json:"key"`
	Value            string   `json:"value"`
	HoldMs           int64    `json:"hold_ms"`
	AcquireTimeoutMs int64    `json:"acquire_timeout_ms"`
	Breakpoints      []string `json:"breakpoints"`
}

type facts map[string]any

type client struct {
	in       *bufio.Reader
	out      io.Writer
	writing  sync.Mutex // of out: a lock is lost while something else is said
	acquire  Acquire
	register *register
}

// Version is that of a module that this program is built with, such as 4.18.1; empty if it is not one of them.
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

// Serve is the client, on standard input and output, until the controller says bye; then it ends the process.
func Serve(name string, connect func(Settings) (Acquire, error)) {
	c := &client{in: bufio.NewReaderSize(os.Stdin, longest), out: os.Stdout}
	os.Stdout = os.Stderr // what a library prints is no message
	err := c.run(name, connect)
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c *client) run(name string, connect func(Settings) (Acquire, error)) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	var first hello
	if err := json.Unmarshal(line, &first); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	if err := c.start(first, connect); err != nil {
		return c.say(facts{"type": "failed", "text": err.Error()})
	}
	if err := c.say(facts{"type": "ready", "protocol": protocol, "name": name, "capabilities": []string{}}); err != nil {
		return err
	}
	for {
		next, err := c.next()
		if err != nil {
			return err
		}
		switch next.Type {
		case "invoke":
			answer, err := c.perform(next)
			if err != nil {
				return err
			}
			answer["id"] = next.ID
			if err := c.say(answer); err != nil {
				return err
			}
		case "go": // a late one is for an operation that is over
		default:
			return fmt.Errorf("%s while no operation is in progress", next.Type)
		}
	}
}

func (c *client) start(first hello, connect func(Settings) (Acquire, error)) error {
	lock, resource := first.Lock, first.Resource
	if first.Protocol != protocol {
		return fmt.Errorf("this client speaks protocol %d, not %d", protocol, first.Protocol)
	}
	if resource.Kind != "register" || resource.Fencing != "none" {
		return fmt.Errorf("this client writes a register without fencing, not %s %s", resource.Kind, resource.Fencing)
	}
	if len(lock.Group) > 0 {
		return errors.New("this client takes nodes that are independent of each other")
	}
	settings := Settings{TTL: ms(lock.TTLMs), NodeTimeout: ms(lock.Options.NodeTimeoutMs), RetryDelay: 30 * time.Millisecond}
	if settings.NodeTimeout == 0 {
		settings.NodeTimeout = settings.TTL
	}
	if delay := lock.Options.RetryDelayMs; len(delay) == 2 {
		settings.RetryDelay = ms(delay[0]+delay[1]) / 2
	}
	for _, node := range lock.Nodes {
		place, err := url.Parse(node)
		if err != nil {
			return err
		}
		settings.Nodes = append(settings.Nodes, place.Host)
	}
	place, err := url.Parse(resource.URL)
	if err != nil {
		return err
	}
	c.register = &register{address: place.Host}
	if err := reached(c.register.connect); err != nil {
		return err
	}
	err = reached(func() error {
		c.acquire, err = connect(settings)
		return err
	})
	if err == nil {
		c.warmUp(first.Client)
	}
	return err
}

// warmUp takes a lock of its own and gives it back. The first one connects and brings the library's scripts to the nodes;
// that belongs to no operation. A node may be down just now, so failing is no reason not to start.
func (c *client) warmUp(name string) {
	ended := make(chan error, 1)
	go func() {
		held, err := c.acquire("warm-up:"+name, warmUpTake)
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

func (c *client) perform(invoke message) (facts, error) {
	switch invoke.F {
	case "read":
		old, err := c.register.ask("GET", invoke.Key)
		if err != nil {
			return fail("unavailable", err), nil
		}
		return facts{"type": "ok", "old": old}, nil
	case "rmw", "hold":
		return c.locked(invoke)
	default:
		return facts{"type": "fail", "error": "unsupported", "text": invoke.F}, nil
	}
}

func (c *client) locked(invoke message) (facts, error) {
	if err := c.phase(invoke, "acquiring", nil); err != nil {
		return nil, err
	}
	held, err := c.acquire("lock:"+invoke.Key, ms(invoke.AcquireTimeoutMs))
	if err != nil {
		return fail("not-acquired", err), nil
	}
	if held == nil {
		return facts{"type": "fail", "error": "not-acquired", "text": ""}, nil
	}
	known := facts{}
	if held.Validity != nil {
		known["validity_ms"] = max(0, held.Validity().Milliseconds())
	}
	if err := c.report(invoke, "acquired", known); err != nil {
		return nil, err
	}
	watch := c.watched(invoke, held.Lost)
	defer watch.end()
	if err := c.wait(invoke, "acquired", known); err != nil {
		return nil, err
	}
	answer, settled, err := c.work(invoke, watch)
	if err != nil || !settled {
		return answer, err
	}
	watch.end()
	if err := c.phase(invoke, "releasing", nil); err != nil {
		return nil, err
	}
	if err := held.Release(); err != nil {
		// Whether the lock is free is not known, so `released` is not said.
		fmt.Fprintln(os.Stderr, "release:", err)
		if errors.Is(err, ErrNotOwned) && !watch.lost.Load() {
			return answer, c.report(invoke, "lost", facts{"text": err.Error()})
		}
		return answer, nil
	}
	return answer, c.phase(invoke, "released", nil)
}

// work is done under the lock. It says the answer, and whether the lock may be given back afterwards.
func (c *client) work(invoke message, watch *watch) (facts, bool, error) {
	if invoke.F == "hold" {
		time.Sleep(ms(invoke.HoldMs))
		return facts{"type": "ok"}, true, nil
	}
	old, err := c.register.ask("GET", invoke.Key)
	if err != nil {
		return fail("unavailable", err), true, nil
	}
	if err := c.phase(invoke, "read", facts{"value": old}); err != nil {
		return nil, false, err
	}
	time.Sleep(ms(invoke.HoldMs))
	if watch.lost.Load() {
		return facts{"type": "fail", "error": "lock-lost", "text": lostText}, true, nil
	}
	if err := c.phase(invoke, "before-write", nil); err != nil {
		return nil, false, err
	}
	if err := c.register.connect(); err != nil {
		return fail("unavailable", err), true, nil
	}
	_, err = c.register.ask("SET", invoke.Key, invoke.Value)
	var no refused
	if errors.As(err, &no) {
		return fail("unavailable", err), true, nil
	}
	if err != nil {
		// Nobody knows whether it was written, or will be. Until it cannot be any more the lock is kept.
		word := "connection-lost"
		if errors.Is(err, os.ErrDeadlineExceeded) {
			word = "timeout"
		}
		return facts{"type": "info", "error": word, "text": err.Error()}, c.register.cutOff(), nil
	}
	if err := c.phase(invoke, "written", nil); err != nil {
		return nil, false, err
	}
	return facts{"type": "ok", "old": old, "new": invoke.Value}, true, nil
}

// phase reports a phase, stamped now. At a breakpoint it waits, and reports it again: only then does what comes next
// happen.
func (c *client) phase(invoke message, name string, known facts) error {
	if err := c.report(invoke, name, known); err != nil {
		return err
	}
	return c.wait(invoke, name, known)
}

func (c *client) report(invoke message, name string, known facts) error {
	told := facts{"type": "phase", "id": invoke.ID, "phase": name, "mono_ns": monotonic()}
	for key, value := range known {
		told[key] = value
	}
	return c.say(told)
}

func (c *client) wait(invoke message, name string, known facts) error {
	waits := false
	for _, breakpoint := range invoke.Breakpoints {
		waits = waits || breakpoint == name
	}
	for waits {
		next, err := c.next()
		if err != nil {
			return err
		}
		if next.Type != "go" {
			return fmt.Errorf("%s while an operation waits at %s", next.Type, name)
		}
		if next.ID == invoke.ID && next.Phase == name {
			return c.report(invoke, name, known)
		}
	}
	return nil
}

const lostText = "the library says that the lock is lost"

// watch tells the controller of a loss as soon as the library knows of it.
type watch struct {
	stop  func() // does nothing the second time
	ended chan struct{}
	lost  atomic.Bool
}

func (c *client) watched(invoke message, lost <-chan struct{}) *watch {
	stopped := make(chan struct{})
	w := &watch{stop: sync.OnceFunc(func() { close(stopped) }), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		select {
		case <-stopped:
		case <-lost:
			w.lost.Store(true)
			// If it cannot be said, neither can the next message, whose error counts.
			_ = c.report(invoke, "lost", facts{"text": lostText})
		}
	}()
	return w
}

// end waits until nothing more is told.
func (w *watch) end() {
	w.stop()
	<-w.ended
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
	return facts{"type": "fail", "error": word, "text": err.Error()}
}

func ms(number int64) time.Duration {
	return time.Duration(number) * time.Millisecond
}

// monotonic is CLOCK_MONOTONIC in nanoseconds, which package time does not give away.
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

// refused is an answer of the server: nothing was done.
type refused string

func (text refused) Error() string { return string(text) }

// register is what the lock protects: texts in a Redis of their own. After an error the connection is closed and never
// used again: a late reply would answer the next request.
type register struct {
	address    string
	connection net.Conn
	replies    *bufio.Reader
	number     *string // what the server calls the connection
}

// connect connects unless it is connected. An error means that nothing was sent.
func (r *register) connect() error {
	if r.connection != nil {
		return nil
	}
	connection, err := net.DialTimeout("tcp", r.address, limit)
	if err != nil {
		return err
	}
	r.connection, r.replies = connection, bufio.NewReader(connection)
	number, err := r.ask("CLIENT", "ID")
	if err == nil {
		r.number = number
	}
	return err
}

// cutOff says whether nothing that was sent on the connection that broke can arrive any more: the server has closed it.
func (r *register) cutOff() bool {
	if r.number == nil {
		return true
	}
	number := *r.number
	for deadline := time.Now().Add(doubtLimit); time.Now().Before(deadline); time.Sleep(again) {
		_, err := r.ask("CLIENT", "KILL", "ID", number)
		var no refused
		if err == nil || errors.As(err, &no) {
			return true
		}
	}
	return false
}

// ask makes one request. Numbers come as texts; nil is a key that does not exist.
func (r *register) ask(words ...string) (*string, error) {
	if err := r.connect(); err != nil {
		return nil, err
	}
	reply, err := r.exchange(words)
	var no refused
	if err != nil && !errors.As(err, &no) {
		r.connection.Close()
		r.connection = nil
	}
	return reply, err
}

func (r *register) exchange(words []string) (*string, error) {
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if err := r.connection.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	if _, err := r.connection.Write([]byte(request)); err != nil {
		return nil, err
	}
	line, err := r.replies.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("the server's reply is empty")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '-':
		return nil, refused(rest)
	case ':', '+':
		return &rest, nil
	case '$':
		size, err := strconv.Atoi(rest)
		if err != nil || size > longest {
			return nil, fmt.Errorf("the server's reply has the length %s", rest)
		}
		if size < 0 {
			return nil, nil
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r.replies, text); err != nil {
			return nil, err
		}
		whole := string(text[:size])
		return &whole, nil
	default:
		return nil, fmt.Errorf("the server replied %q", line)
	}
}
