// The Go peer of the comparison: main.go WORKLOAD --procs P [--size N].
//
// It implements the contract of compare/peers/common: it warms up, measures, and prints one line of JSON.
// Exit status 2 means invalid arguments, 3 that this peer cannot run the workload.
//
// Where Go has more than one idiom, the peer uses the fastest that was measured, and a comment says which.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

type args struct {
	workload string
	procs    int
	size     int
}

type figure struct {
	name  string
	value float64
}

type report struct {
	ops   int
	time  time.Duration
	extra []figure
}

// with adds a figure under a name from the driver's table of workloads.
func (r report) with(name string, value float64) report {
	r.extra = append(r.extra, figure{name, value})
	return r
}

// sizeOr returns the size asked for, or the default n.
func (a args) sizeOr(n int) int {
	if a.size != 0 {
		return a.size
	}
	return n
}

var workloads = map[string]func(args) report{
	"spawn_join":   spawnJoin,
	"spawn_one":    spawnOne,
	"yield":        yield,
	"skynet":       skynet,
	"parked":       parked,
	"fib":          fib,
	"join_fib":     fib,
	"stack_deep":   stackDeep,
	"malloc":       func(a args) report { return malloc(a, a.procs) },
	"malloc_crowd": func(a args) report { return malloc(a, mallocCrowd) },

	"pingpong":        func(a args) report { return pingpong(a, 0) },
	"pingpong_queue":  func(a args) report { return pingpong(a, 1) },
	"chan_buffered":   chanBuffered,
	"mpmc":            mpmc,
	"skynet_chan":     skynetChan,
	"sieve":           sieve,
	"select_ready2":   selectReady2,
	"select_ready8":   selectReady8,
	"select_blocked2": selectBlocked2,
	"select_blocked8": selectBlocked8,
	"mutex":           mutexContended,
	"mutex_free":      mutexFree,
	"rwlock":          rwlock,
	"timers":          timers,
	"ring":            ring,

	"hog":            hog,
	"hog_noisy":      hogNoisy,
	"hog_crowd":      hogCrowd,
	"hog_first":      hogFirst,
	"blocking":       blocking,
	"blocking_burst": blockingBurst,
	"syscall_short":  syscallShort,
	"fairness":       fairness,

	"tcp_echo":   tcpEcho,
	"echo_rate":  echoRate,
	"http_hello": httpHello,
	"http_cpu":   httpCPU,
	"http_block": httpBlock,
	"http_idle":  httpIdle,
}

func main() {
	a := parse(os.Args[1:])
	run, known := workloads[a.workload]
	if !known {
		fmt.Fprintln(os.Stderr, "has no such workload")
		os.Exit(3)
	}
	runtime.GOMAXPROCS(a.procs)
	r := run(a)
	var line strings.Builder
	fmt.Fprintf(&line, `{"workload":%q,"peer":"go","procs":%d,"ops":%d,"ns":%d`,
		a.workload, a.procs, r.ops, r.time.Nanoseconds())
	for _, f := range r.extra {
		fmt.Fprintf(&line, `,%q:%v`, f.name, f.value)
	}
	fmt.Println(line.String() + "}")
}

func parse(words []string) args {
	var a args
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "--procs" || word == "--size":
			i++
			n := 0
			if i < len(words) {
				n, _ = strconv.Atoi(words[i])
			}
			if n <= 0 {
				refuse(word + " wants a whole number above 0")
			}
			if word == "--procs" {
				a.procs = n
			} else {
				a.size = n
			}
		case strings.HasPrefix(word, "-"):
			refuse("unknown option " + word)
		case a.workload != "":
			refuse("one workload at a time, not also " + word)
		default:
			a.workload = word
		}
	}
	if a.workload == "" {
		refuse("which workload?")
	}
	if a.procs == 0 {
		refuse("--procs is missing")
	}
	return a
}

func refuse(why string) {
	fmt.Fprintln(os.Stderr, why)
	fmt.Fprintln(os.Stderr, "usage: peer WORKLOAD --procs P [--size N]")
	os.Exit(2)
}
