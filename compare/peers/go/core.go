// Group "core": spawning, joining, yielding, parking.
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const spawnBatch = 1000

// spawnJoin uses one WaitGroup.Add for the whole batch, which is cheaper than wg.Go, which counts one by one.
func spawnJoin(a args) report {
	n := a.sizeOr(1_000_000)
	took := warmThenTime(n, func(n int) {
		var wg sync.WaitGroup
		for range n / spawnBatch {
			wg.Add(spawnBatch)
			for range spawnBatch {
				go wg.Done()
			}
			wg.Wait()
		}
	})
	return report{ops: n / spawnBatch * spawnBatch, time: took}
}

func spawnOne(a args) report {
	n := a.sizeOr(500_000)
	took := warmThenTime(n, func(n int) {
		var wg sync.WaitGroup
		for range n {
			wg.Add(1)
			go wg.Done()
			wg.Wait()
		}
	})
	return report{ops: n, time: took}
}

func yield(a args) report {
	each := a.sizeOr(4_000_000) / (2 * a.procs)
	took := warmThenTime(each, func(each int) {
		var wg sync.WaitGroup
		wg.Add(2 * a.procs)
		for range 2 * a.procs {
			go func() {
				for range each {
					runtime.Gosched()
				}
				wg.Done()
			}()
		}
		wg.Wait()
	})
	return report{ops: each * 2 * a.procs, time: took}
}

// skynet joins with a WaitGroup, and the children write into an array of their parent. This is faster than
// one channel per node, which is the workload skynet_chan.
func skynet(a args) report {
	leaves := a.sizeOr(1_000_000)
	took := warmThenTime(leaves, func(leaves int) {
		if skynetTree(0, leaves) != skynetSum(leaves) {
			panic("skynet: wrong sum")
		}
	})
	return report{ops: skynetNodes(leaves), time: took}
}

func skynetTree(first, leaves int) int {
	if leaves <= 1 {
		return first
	}
	var wg sync.WaitGroup
	var sums [10]int
	wg.Add(10)
	for i := range 10 {
		go func() {
			sums[i] = skynetTree(first+i*(leaves/10), leaves/10)
			wg.Done()
		}()
	}
	wg.Wait()
	sum := 0
	for _, s := range sums {
		sum += s
	}
	return sum
}

// parked waits on a channel; closing it wakes all goroutines.
func parked(a args) report {
	n := a.sizeOr(1_000_000)
	before := memory()
	gate := make(chan struct{})
	var arrived atomic.Int64
	var finished sync.WaitGroup
	finished.Add(n)
	start := time.Now()
	for range n {
		go func() {
			arrived.Add(1)
			<-gate
			finished.Done()
		}()
	}
	for arrived.Load() < int64(n) {
		runtime.Gosched()
	}
	spawned := time.Since(start)
	time.Sleep(50 * time.Millisecond)
	each := float64(memory()-before) / float64(n)
	start = time.Now()
	close(gate)
	finished.Wait()
	woken := time.Since(start)
	return report{ops: n, time: spawned + woken}.
		with("bytes_each", each).
		with("spawn_ns", float64(spawned.Nanoseconds())/float64(n)).
		with("wake_ns", float64(woken.Nanoseconds())/float64(n))
}

const fibRepeat = 8

// fib joins with a WaitGroup, which is stored beside the result so that a fork allocates only once. This is
// faster than a channel for each fork.
func fib(a args) report {
	n := a.sizeOr(25)
	fibTree(n)
	start := time.Now()
	for range fibRepeat {
		fibTree(n)
	}
	return report{ops: fibForks(n) * fibRepeat, time: time.Since(start)}
}

type fibFork struct {
	done   sync.WaitGroup
	result int
}

func (f *fibFork) run(n int) {
	f.result = fibTree(n)
	f.done.Done()
}

func fibTree(n int) int {
	if n < 2 {
		return n
	}
	left := new(fibFork)
	left.done.Add(1)
	go left.run(n - 1)
	right := fibTree(n - 2)
	left.done.Wait()
	return left.result + right
}

const (
	deepFrames  = 1000
	mallocCrowd = 1000
)

//go:noinline
func deep(frames int) int {
	var frame [128]int
	for i := range frame {
		frame[i] = frames
	}
	if frames == 0 {
		return 0
	}
	return frame[frames%128] - frames + 1 + deep(frames-1)
}

func stackDeep(a args) report {
	batches := a.sizeOr(20_000) / spawnBatch
	took := warmThenTime(batches, func(batches int) {
		for range batches {
			var wg sync.WaitGroup
			wg.Add(spawnBatch)
			for range spawnBatch {
				go func() {
					if deep(deepFrames) != deepFrames {
						panic("stack_deep: wrong depth")
					}
					wg.Done()
				}()
			}
			wg.Wait()
		}
	})
	return report{ops: batches * spawnBatch, time: took}
}

var mallocSizes = [...]int{16, 24, 48, 100, 250, 600, 1000, 4000}

func malloc(a args, goroutines int) report {
	each := a.sizeOr(10_000_000) / goroutines
	took := warmThenTime(each, func(each int) {
		var wg sync.WaitGroup
		wg.Add(goroutines)
		for range goroutines {
			go func() {
				var kept [64][]byte
				for i := range each {
					buffer := make([]byte, 0, mallocSizes[i*7%8])
					kept[i*13%64] = append(buffer, byte(i))
				}
				runtime.KeepAlive(&kept)
				wg.Done()
			}()
		}
		wg.Wait()
	})
	return report{ops: each * goroutines, time: took}
}
