// Group "block": hogs and blocking system calls.
package main

import (
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// hog starts the sleeper first.
func hog(a args) report { return hogBeside(a, hogsPerP*a.procs) }

// hogNoisy is hog beside other processes that compute, one for each core.
func hogNoisy(a args) report {
	for range runtime.NumCPU() {
		neighbour := exec.Command("sh", "-c", "while :; do :; done")
		if err := neighbour.Start(); err != nil {
			panic(err)
		}
		defer neighbour.Wait()
		defer neighbour.Process.Kill()
	}
	return hog(a)
}

// hogCrowd is hog with many loops.
func hogCrowd(a args) report { return hogBeside(a, hogCrowdSize) }

func hogBeside(a args, loops int) report {
	hogs := newCounters(loops)
	awake, done := make(chan struct{}), make(chan []int64)
	go func() {
		time.Sleep(nap)
		close(awake)
		done <- oversleep(a.sizeOr(200))
	}()
	<-awake
	run := beginHogRun(hogs)
	wait := startHogs(hogs)
	over := <-done
	r := hogReport(over, hogs, run, a.procs)
	hogs.stop.Store(true)
	wait()
	return r
}

// hogFirst starts the sleeper when every hog is running.
func hogFirst(a args) report {
	hogs := newCounters(hogsPerP * a.procs)
	wait := startHogs(hogs)
	awaitHogs(hogs)
	run := beginHogRun(hogs)
	done := make(chan []int64)
	go func() { done <- oversleep(a.sizeOr(200)) }()
	over := <-done
	r := hogReport(over, hogs, run, a.procs)
	hogs.stop.Store(true)
	wait()
	return r
}

func startHogs(hogs *counters) (wait func()) {
	var wg sync.WaitGroup
	wg.Add(len(hogs.slots))
	for i := range hogs.slots {
		go func() {
			hogs.hog(i)
			wg.Done()
		}()
	}
	return wg.Wait
}

func awaitHogs(hogs *counters) {
	for hogs.started.Load() < int64(len(hogs.slots)) {
		runtime.Gosched()
	}
}

const (
	blockers = 64
	blockNap = 10 * time.Millisecond
)

// blocking sleeps in the kernel, not in the runtime. ideal_ratio is 1 if no call has to wait for another.
func blocking(a args) report {
	naps := a.sizeOr(20)
	run := func(naps int) {
		var wg sync.WaitGroup
		wg.Add(blockers)
		for range blockers {
			go func() {
				for range naps {
					sleepInKernel(blockNap)
				}
				wg.Done()
			}()
		}
		wg.Wait()
	}
	took := warmThenTime(naps, run)
	ideal := time.Duration(naps) * blockNap
	return report{ops: blockers * naps, time: took}.with("ideal_ratio", float64(took)/float64(ideal))
}

const burstNap = 100 * time.Millisecond

// blockingBurst starts many goroutines at once that sleep in the kernel, beside one that sleeps in the runtime.
func blockingBurst(a args) report {
	n := a.sizeOr(1000)
	var stop atomic.Bool
	late := make(chan time.Duration)
	go func() {
		worst := time.Duration(0)
		for !stop.Load() {
			start := time.Now()
			time.Sleep(nap)
			worst = max(worst, time.Since(start)-nap)
		}
		late <- worst
	}()
	time.Sleep(burstNap / 20)
	start := time.Now()
	var wg sync.WaitGroup
	wg.Add(n)
	for range n {
		go func() {
			sleepInKernel(burstNap)
			wg.Done()
		}()
	}
	wg.Wait()
	took := time.Since(start)
	stop.Store(true)
	r := report{ops: n, time: took}.with("ideal_ratio", float64(took)/float64(burstNap))
	return r.with("late_max_ns", float64(<-late))
}

func sleepInKernel(nap time.Duration) {
	t := syscall.NsecToTimespec(int64(nap))
	for syscall.Nanosleep(&t, &t) == syscall.EINTR {
	}
}

// syscallShort uses syscall.Syscall, which tells the scheduler about the call, as gort::blocking does.
// syscall.Getppid is the bare instruction and does not involve the scheduler.
func syscallShort(a args) report {
	n := a.sizeOr(2_000_000)
	took := warmThenTime(n, func(n int) {
		for range n {
			syscall.Syscall(syscall.SYS_GETPPID, 0, 0, 0)
		}
	})
	return report{ops: n, time: took}
}

func fairness(a args) report {
	hogs := newCounters(fairHogsPerP * a.procs)
	wait := startHogs(hogs)
	awaitHogs(hogs)
	run := beginHogRun(hogs)
	time.Sleep(time.Duration(a.sizeOr(3000)) * time.Millisecond)
	r := run.fairness(hogs)
	hogs.stop.Store(true)
	wait()
	return r
}
