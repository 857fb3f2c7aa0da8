// Clocks, memory, percentiles and the calculations that several workloads share; the counterpart of
// compare/peers/common/src/measure.rs.
package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// warmThenTime runs body with a tenth of size, then with all of it, and returns the time of the second run.
func warmThenTime(size int, body func(int)) time.Duration {
	body(max(size/10, 1))
	start := time.Now()
	body(size)
	return time.Since(start)
}

// memory is the resident memory and page tables of this process, in bytes.
func memory() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	total := 0
	for _, name := range []string{"\nVmRSS:", "\nVmPTE:"} {
		at := bytes.Index(status, []byte(name))
		kb := 0
		if _, err := fmt.Sscanf(string(status[at+len(name):]), "%d", &kb); err != nil {
			panic(err)
		}
		total += kb * 1024
	}
	return total
}

// cpuNs is the CPU time that all threads of this process have used so far.
func cpuNs() int64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return use.Utime.Nano() + use.Stime.Nano()
}

// contextSwitches counts how often the kernel has switched away from a thread of this process so far.
func contextSwitches() int64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return use.Nvcsw + use.Nivcsw
}

func skynetNodes(leaves int) int {
	if leaves <= 1 {
		return 1
	}
	return leaves + skynetNodes(leaves/10)
}

func skynetSum(leaves int) int { return leaves * (leaves - 1) / 2 }

func fibForks(n int) int {
	if n < 2 {
		return 0
	}
	return 1 + fibForks(n-1) + fibForks(n-2)
}

func nthPrime(n int) int {
	last, _ := sievePlan(n)
	return last
}

func sieveMessages(n int) int {
	_, messages := sievePlan(n)
	return messages
}

// sievePlan returns the nth prime and the number of messages that a sieve of n primes sends: each number
// passes the filters of all primes up to its smallest factor.
func sievePlan(n int) (last, messages int) {
	var primes []int
	for v := 2; len(primes) < n; v++ {
		passed := slices.IndexFunc(primes, func(p int) bool { return v%p == 0 })
		if passed < 0 {
			passed = len(primes)
			primes = append(primes, v)
		}
		last = v
		messages += passed + 1
	}
	return last, messages
}

// lcg is a random number generator that yields the same numbers in every peer.
type lcg uint64

func (l *lcg) between(low, high int) int {
	*l = *l*6364136223846793005 + 1442695040888963407
	return low + int(uint64(*l)>>33%uint64(high-low+1))
}

const (
	sleepersRepeat = 10
	hogsPerP       = 2
	hogCrowdSize   = 1000
	fairHogsPerP   = 4
	nap            = time.Millisecond
	napsAtMost     = 5 * time.Second
	napEachAtLeast = 10 * time.Millisecond
)

// counters has one counter for each hog, on separate cache lines so that the hogs do not slow each other
// down.
type counters struct {
	slots   []slot
	stop    atomic.Bool
	started atomic.Int64
}

type slot struct {
	n atomic.Uint64
	_ [120]byte
}

func newCounters(hogs int) *counters { return &counters{slots: make([]slot, hogs)} }

// hog counts until told to stop and never calls the runtime.
func (c *counters) hog(i int) {
	c.started.Add(1)
	for count := uint64(1); !c.stop.Load(); count++ {
		c.slots[i].n.Store(count)
	}
}

func (c *counters) counts() []uint64 {
	counts := make([]uint64, len(c.slots))
	for i := range c.slots {
		counts[i] = c.slots[i].n.Load()
	}
	return counts
}

type hogRun struct {
	start time.Time
	cpu   int64
	then  []uint64
}

func beginHogRun(c *counters) hogRun { return hogRun{time.Now(), cpuNs(), c.counts()} }

func (h hogRun) cpuShare(procs int) float64 {
	possible := float64(time.Since(h.start).Nanoseconds()) * float64(min(procs, runtime.NumCPU()))
	return float64(cpuNs()-h.cpu) / possible
}

// made returns how far each hog has counted since the beginning, and the sum.
func (h hogRun) made(c *counters) (made []uint64, sum float64) {
	made = c.counts()
	for i := range made {
		made[i] -= h.then[i]
		sum += float64(made[i])
	}
	return made, sum
}

// speed is how far all hogs together count in a second.
func (h hogRun) speed(c *counters) float64 {
	_, sum := h.made(c)
	return sum / time.Since(h.start).Seconds()
}

func (h hogRun) fairness(c *counters) report {
	made, sum := h.made(c)
	fair, worst := sum/float64(len(made)), 0.0
	for _, n := range made {
		worst = max(worst, math.Abs(float64(n)-fair)/fair)
	}
	return report{ops: len(made), time: time.Since(h.start)}.with("deviation", worst)
}

// oversleep collects by how much n naps lasted too long. It takes fewer naps if that takes too long, and more
// if it takes too little time to measure the hogs.
func oversleep(n int) []int64 {
	start := time.Now()
	var over []int64
	wanted := func() bool { return len(over) < n || time.Since(start) < time.Duration(n)*napEachAtLeast }
	for wanted() && time.Since(start) < napsAtMost {
		before := time.Now()
		time.Sleep(nap)
		over = append(over, max(int64(time.Since(before)-nap), 0))
	}
	slices.Sort(over)
	return over
}

func percentile(sorted []int64, percent int) float64 {
	rank := max((len(sorted)*percent+99)/100, 1)
	return float64(sorted[rank-1])
}

// hogReport must be called right after the sleeper has ended. It then lets the hogs run alone for as long as
// they ran beside the sleeper.
func hogReport(over []int64, c *counters, beside hogRun, procs int) report {
	took, share, speed := time.Since(beside.start), beside.cpuShare(procs), beside.speed(c)
	alone := beginHogRun(c)
	time.Sleep(took)
	return report{ops: len(over), time: took}.
		with("over_p50_ns", percentile(over, 50)).
		with("over_p99_ns", percentile(over, 99)).
		with("hog_share", share).
		with("hog_loss", max(0, 1-speed/alone.speed(c)))
}
