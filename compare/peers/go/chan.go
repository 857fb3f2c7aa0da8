// Group "chan": channels, select, locks, timers.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// pingpong counts round trips over two channels with the given capacity. With room for one message, a sender
// never waits: that is as much as a queue without a limit can do here, and Go has none.
func pingpong(a args, room int) report {
	n := a.sizeOr(1_000_000)
	took := warmThenTime(n, func(n int) {
		ping, pong := make(chan int, room), make(chan int, room)
		go func() {
			for v := range ping {
				pong <- v
			}
			close(pong)
		}()
		for i := range n {
			ping <- i
			<-pong
		}
		close(ping)
		<-pong
	})
	return report{ops: n, time: took}
}

func chanBuffered(a args) report {
	n := a.sizeOr(5_000_000)
	took := warmThenTime(n, func(n int) {
		ch := make(chan int, 128)
		go func() {
			for i := range n {
				ch <- i
			}
			close(ch)
		}()
		for range ch {
		}
	})
	return report{ops: n, time: took}
}

func mpmc(a args) report {
	each := a.sizeOr(4_000_000) / 4
	took := warmThenTime(each, func(each int) {
		ch := make(chan int, 128)
		var senders, receivers sync.WaitGroup
		var received atomic.Int64
		senders.Add(4)
		receivers.Add(4)
		for range 4 {
			go func() {
				for i := range each {
					ch <- i
				}
				senders.Done()
			}()
			go func() {
				n := 0
				for range ch {
					n++
				}
				received.Add(int64(n))
				receivers.Done()
			}()
		}
		senders.Wait()
		close(ch)
		receivers.Wait()
		if received.Load() != int64(4*each) {
			panic("mpmc: lost a message")
		}
	})
	return report{ops: 4 * each, time: took}
}

// skynetChan has one unbuffered channel for each inner node, like the original benchmark.
func skynetChan(a args) report {
	leaves := a.sizeOr(1_000_000)
	took := warmThenTime(leaves, func(leaves int) {
		ch := make(chan int)
		go skynetNode(ch, 0, leaves)
		if <-ch != skynetSum(leaves) {
			panic("skynet_chan: wrong sum")
		}
	})
	return report{ops: skynetNodes(leaves), time: took}
}

func skynetNode(up chan int, first, leaves int) {
	if leaves <= 1 {
		up <- first
		return
	}
	ch := make(chan int)
	for i := range 10 {
		go skynetNode(ch, first+i*(leaves/10), leaves/10)
	}
	sum := 0
	for range 10 {
		sum += <-ch
	}
	up <- sum
}

// sieve is a chain of filters. The generator stops at the last prime wanted, so that all goroutines end.
func sieve(a args) report {
	n := a.sizeOr(2000)
	took := warmThenTime(n, func(n int) {
		last := nthPrime(n)
		from := make(chan int)
		go func(to chan int) {
			for i := 2; i <= last; i++ {
				to <- i
			}
			close(to)
		}(from)
		found := 0
		for prime, more := <-from; more; prime, more = <-from {
			found++
			to := make(chan int)
			go sieveFilter(prime, from, to)
			from = to
		}
		if found != n {
			panic("sieve: wrong number of primes")
		}
	})
	return report{ops: sieveMessages(n), time: took}
}

func sieveFilter(prime int, from, to chan int) {
	for v := range from {
		if v%prime != 0 {
			to <- v
		}
	}
	close(to)
}

// selectReady2 selects among channels that all hold a message, and puts back the message that it received.
func selectReady2(a args) report {
	n := a.sizeOr(3_000_000)
	took := warmThenTime(n, func(n int) {
		c := selectChans(2, 1)
		for range n {
			select {
			case v := <-c[0]:
				c[0] <- v
			case v := <-c[1]:
				c[1] <- v
			}
		}
	})
	return report{ops: n, time: took}
}

func selectReady8(a args) report {
	n := a.sizeOr(3_000_000)
	took := warmThenTime(n, func(n int) {
		c := selectChans(8, 1)
		for range n {
			select {
			case v := <-c[0]:
				c[0] <- v
			case v := <-c[1]:
				c[1] <- v
			case v := <-c[2]:
				c[2] <- v
			case v := <-c[3]:
				c[3] <- v
			case v := <-c[4]:
				c[4] <- v
			case v := <-c[5]:
				c[5] <- v
			case v := <-c[6]:
				c[6] <- v
			case v := <-c[7]:
				c[7] <- v
			}
		}
	})
	return report{ops: n, time: took}
}

// selectChans creates channels with one message each, or empty unbuffered ones.
func selectChans(n, capacity int) []chan int {
	c := make([]chan int, n)
	for i := range c {
		c[i] = make(chan int, capacity)
		if capacity > 0 {
			c[i] <- i
		}
	}
	return c
}

// selectFeed sends in turn on each unbuffered channel, so that the select mostly blocks on all of them.
func selectFeed(c []chan int, n int) {
	for i := range n {
		c[i%len(c)] <- i
	}
}

func selectBlocked2(a args) report {
	n := a.sizeOr(1_000_000)
	took := warmThenTime(n, func(n int) {
		c := selectChans(2, 0)
		go selectFeed(c, n)
		for range n {
			select {
			case <-c[0]:
			case <-c[1]:
			}
		}
	})
	return report{ops: n, time: took}
}

func selectBlocked8(a args) report {
	n := a.sizeOr(1_000_000)
	took := warmThenTime(n, func(n int) {
		c := selectChans(8, 0)
		go selectFeed(c, n)
		for range n {
			select {
			case <-c[0]:
			case <-c[1]:
			case <-c[2]:
			case <-c[3]:
			case <-c[4]:
			case <-c[5]:
			case <-c[6]:
			case <-c[7]:
			}
		}
	})
	return report{ops: n, time: took}
}

const lockers = 100

func mutexContended(a args) report {
	each := a.sizeOr(20_000_000) / lockers
	took := warmThenTime(each, func(each int) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		counter := 0
		wg.Add(lockers)
		for range lockers {
			go func() {
				for range each {
					mu.Lock()
					counter++
					mu.Unlock()
				}
				wg.Done()
			}()
		}
		wg.Wait()
		if counter != each*lockers {
			panic("mutex: lost an increment")
		}
	})
	return report{ops: each * lockers, time: took}
}

func mutexFree(a args) report {
	n := a.sizeOr(50_000_000)
	took := warmThenTime(n, func(n int) {
		mu, counter := new(sync.Mutex), new(int)
		for range n {
			mu.Lock()
			*counter++
			mu.Unlock()
		}
		if *counter != n {
			panic("mutex_free: lost an increment")
		}
	})
	return report{ops: n, time: took}
}

// rwlock writes in one of 16 operations, and reads in the others.
func rwlock(a args) report {
	each := a.sizeOr(30_000_000) / lockers
	took := warmThenTime(each, func(each int) {
		var mu sync.RWMutex
		var wg sync.WaitGroup
		counter := 0
		wg.Add(lockers)
		for range lockers {
			go func() {
				seen := 0
				for i := range each {
					if i%16 == 0 {
						mu.Lock()
						counter++
						mu.Unlock()
					} else {
						mu.RLock()
						seen = max(seen, counter)
						mu.RUnlock()
					}
				}
				if seen > lockers*each {
					panic("rwlock: impossible count")
				}
				wg.Done()
			}()
		}
		wg.Wait()
	})
	return report{ops: each * lockers, time: took}
}

func timers(a args) report {
	n := a.sizeOr(100_000)
	var late atomic.Int64
	var wg sync.WaitGroup
	wg.Add(n)
	cpu, start := cpuNs(), time.Now()
	for i := range n {
		go func() {
			random := lcg(i)
			var mine time.Duration
			for range sleepersRepeat {
				want := time.Duration(random.between(1000, 100_000)) * time.Microsecond
				before := time.Now()
				time.Sleep(want)
				mine += time.Since(before) - want
			}
			late.Add(int64(mine))
			wg.Done()
		}()
	}
	wg.Wait()
	took, sleeps := time.Since(start), float64(n*sleepersRepeat)
	return report{ops: n * sleepersRepeat, time: took}.
		with("late_ns", float64(late.Load())/sleeps).
		with("cpu_ns", float64(cpuNs()-cpu)/sleeps)
}

const ringSize = 1000

// ring counts hops of one token over unbuffered channels.
func ring(a args) report {
	laps := a.sizeOr(2_000_000) / ringSize
	took := warmThenTime(laps, func(laps int) {
		first := make(chan int)
		from := first
		for range ringSize - 1 {
			to := make(chan int)
			go func(from, to chan int) {
				for v := range from {
					to <- v + 1
				}
				close(to)
			}(from, to)
			from = to
		}
		for range laps {
			first <- 1
			if <-from != ringSize {
				panic("ring: lost a hop")
			}
		}
		close(first)
		<-from
	})
	return report{ops: laps * ringSize, time: took}
}
