// Checks histories with the user's own copy of Porcupine, see porcupine.sh. Prints the same as `cargo bench --bench
// porcupine`: name, operations, whether it is linearizable, microseconds (the best of several runs, checking only).
package main

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct{ f, key, a, b string }

// What an operation returned: a value, `fail`, or unknown.
type output struct {
	value         string
	fail, unknown bool
}

var register = porcupine.Model{
	Init: func() interface{} { return "nil" },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		s, i, o := state.(string), in.(input), out.(output)
		switch {
		case i.f == ":read":
			return o.unknown || o.value == s, s
		case i.f == ":write":
			return true, i.a
		case o.unknown:
			if s == i.a {
				return true, i.b
			}
			return true, s
		case o.fail:
			return s != i.a, s
		default:
			return s == i.a, i.b
		}
	},
}

var keyValue = porcupine.Model{
	PartitionEvent: func(history []porcupine.Event) [][]porcupine.Event {
		parts, keys := map[string][]porcupine.Event{}, map[int]string{}
		for _, e := range history {
			if e.Kind == porcupine.CallEvent {
				keys[e.Id] = e.Value.(input).key
			}
			parts[keys[e.Id]] = append(parts[keys[e.Id]], e)
		}
		var all [][]porcupine.Event
		for _, part := range parts {
			all = append(all, part)
		}
		return all
	},
	Init: func() interface{} { return "" },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		s, i := state.(string), in.(input)
		switch i.f {
		case ":get":
			return out.(output).value == s, s
		case ":put":
			return true, i.a
		default:
			return true, s + i.a
		}
	},
	Hash: func(state interface{}) uint64 {
		h := fnv.New64a()
		h.Write([]byte(state.(string)))
		return h.Sum64()
	},
}

var log = regexp.MustCompile(`- (\d+)\s+:(\w+)\s+(:\w+)\s+(.*)$`)
var entry = regexp.MustCompile(`:process (\d+), :type :(\w+), :f (:\w+), :key "(.*)", :value (.*)}`)

func read(path string) ([]porcupine.Event, int) {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	var events []porcupine.Event
	open, count := map[string]int{}, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var process, kind, f, key, value string
		if m := entry.FindStringSubmatch(lines.Text()); m != nil {
			process, kind, f, key, value = m[1], m[2], m[3], m[4], strings.Trim(m[5], `"`)
			if value == "nil" {
				value = ""
			}
		} else if m := log.FindStringSubmatch(lines.Text()); m != nil {
			process, kind, f, value = m[1], m[2], m[3], m[4]
		} else {
			continue
		}
		if kind == "invoke" {
			in := input{f: f, key: key, a: value}
			if f == ":cas" {
				fmt.Sscanf(value, "[%s %s", &in.a, &in.b)
				in.b = strings.TrimSuffix(in.b, "]")
			}
			events = append(events, porcupine.Event{Kind: porcupine.CallEvent, Value: in, Id: count})
			open[process] = count
			count++
		} else if kind != "info" {
			out := output{value: value, fail: kind == "fail", unknown: value == ":timed-out"}
			events = append(events, porcupine.Event{Kind: porcupine.ReturnEvent, Value: out, Id: open[process]})
			delete(open, process)
		} else {
			// Its return comes at the end; meanwhile its process continues.
			open["info "+fmt.Sprint(open[process])] = open[process]
			delete(open, process)
		}
	}
	for _, id := range open {
		events = append(events, porcupine.Event{Kind: porcupine.ReturnEvent, Value: output{unknown: true}, Id: id})
	}
	return events, count
}

func main() {
	for _, kind := range []string{"jepsen", "kv"} {
		model := register
		if kind == "kv" {
			model = keyValue
		}
		paths, _ := filepath.Glob(filepath.Join(os.Args[1], "test_data", kind, "*"))
		for _, path := range paths {
			events, count := read(path)
			best, legal, started := time.Hour, true, time.Now()
			for run := 0; run < 50 && (run < 3 || time.Since(started) < 2*time.Second); run++ {
				begun := time.Now()
				legal = porcupine.CheckEvents(model, events)
				if took := time.Since(begun); took < best {
					best = took
				}
			}
			fmt.Printf("%s,%d,%v,%.1f\n", filepath.Base(path), count, legal, float64(best.Nanoseconds())/1e3)
		}
	}
}
