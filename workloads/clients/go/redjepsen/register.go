package redjepsen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// refused is an error reply of the server: nothing was done.
type refused string

func (text refused) Error() string { return string(text) }

const (
	conflict = refused("the value that was read is no longer current")
	fenced   = refused("the resource has seen a later holder's token")
)

// wordOf returns the protocol's word for an error of the resource after which nothing is written.
func wordOf(err error) string {
	switch {
	case errors.Is(err, conflict):
		return "conflict"
	case errors.Is(err, fenced):
		return "fenced"
	default:
		return "unavailable"
	}
}

var (
	kinds    = []string{"register", "counter", "list", "none"}
	fencings = []string{"none", "compare-and-set", "token", "token-reads"}
)

const (
	// KEYS: the key. ARGV: whether the key had a text, this text, the new text.
	compareAndSet = `
local current = redis.call('get', KEYS[1])
local matches
if ARGV[1] == 'absent' then matches = current == false else matches = current == ARGV[2] end
if not matches then return 0 end
redis.call('set', KEYS[1], ARGV[3])
return 1`
	// KEYS: the key, the key of its highest token. ARGV: the writer's token, the new text.
	setWithToken = `
if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[2], ARGV[1])
redis.call('set', KEYS[1], ARGV[2])
return 1`
	// Returns the text after a plus, or a minus if the key has no text.
	getWithToken = `
if tonumber(redis.call('get', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[2], ARGV[1])
local text = redis.call('get', KEYS[1])
return text and '+' .. text or '-'`
)

// register is the resource that the lock protects: texts in a separate Redis. After an error the connection is closed
// and never used again: a late reply would look like the reply to the next request.
type register struct {
	address    string
	kind       string
	fencing    string
	connection net.Conn
	replies    *bufio.Reader
	number     *string // the server's id of the connection
}

// connect connects if there is no connection. An error means that nothing was sent.
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

// read returns the text under a key; nil if there is none. The token matters only if the resource checks tokens of
// reads.
func (r *register) read(key string, token *uint64) (*string, error) {
	if r.fencing != "token-reads" || token == nil {
		return r.ask("GET", key)
	}
	reply, err := r.ask("EVAL", getWithToken, "2", key, key+":highest-token", strconv.FormatUint(*token, 10))
	if err != nil || reply == nil {
		return nil, err
	}
	if *reply == "0" {
		return nil, fenced
	}
	if text, ok := strings.CutPrefix(*reply, "+"); ok {
		return &text, nil
	}
	return nil, nil
}

// write writes the value of a holder that has read this text.
func (r *register) write(key string, text *string, old reading, value string, token *uint64) error {
	updated, err := r.updated(old, value)
	if err != nil {
		return err
	}
	var reply *string
	no := fenced
	switch {
	case r.fencing == "none":
		_, err = r.ask("SET", key, updated)
		return err
	case r.fencing == "compare-and-set":
		no = conflict
		if text == nil {
			reply, err = r.ask("EVAL", compareAndSet, "1", key, "absent", "", updated)
		} else {
			reply, err = r.ask("EVAL", compareAndSet, "1", key, "present", *text, updated)
		}
	case token == nil:
		return refused("the library gave no fencing token")
	default:
		number := strconv.FormatUint(*token, 10)
		reply, err = r.ask("EVAL", setWithToken, "2", key, key+":highest-token", number, updated)
	}
	if err == nil && (reply == nil || *reply != "1") {
		err = no
	}
	return err
}

// reading is the content of a text: the identity of the last update, and the count for counters and lists.
type reading struct {
	identity *string
	count    *int
	elements []string
}

func (old reading) into(name string, known facts) facts {
	known[name] = old.identity
	if old.count != nil {
		known["count"] = *old.count
	}
	return known
}

func (r *register) understood(text *string) (reading, error) {
	switch r.kind {
	case "counter":
		none := 0
		if text == nil {
			return reading{count: &none}, nil
		}
		number, identity, _ := strings.Cut(*text, " ")
		count, err := strconv.Atoi(number)
		return reading{identity: &identity, count: &count}, err
	case "list":
		elements := []string{}
		if text != nil {
			if err := json.Unmarshal([]byte(*text), &elements); err != nil {
				return reading{}, err
			}
		}
		count := len(elements)
		old := reading{count: &count, elements: elements}
		if count > 0 {
			old.identity = &elements[count-1]
		}
		return old, nil
	default:
		return reading{identity: text}, nil
	}
}

func (r *register) updated(old reading, value string) (string, error) {
	switch r.kind {
	case "counter":
		return fmt.Sprintf("%d %s", *old.count+1, value), nil
	case "list":
		text, err := json.Marshal(append(old.elements, value))
		return string(text), err
	default:
		return value, nil
	}
}

// cutOff returns whether nothing that was sent on the broken connection can arrive any more: the server has closed it.
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

// ask makes one request. Numbers are returned as texts; nil is a key that does not exist.
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
