// Makes go.trace: a bit of everything that Go writes into a trace. See README.md.
package main

import (
	"bytes"
	"context"
	"iter"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"syscall"
	"time"
)

func spin(d time.Duration) (n int) {
	for t := time.Now(); time.Since(t) < d; n++ {
	}
	return
}

func worker(jobs <-chan int, done chan<- int) {
	for job := range jobs {
		spin(200 * time.Microsecond)
		done <- job
	}
}

func collect(ctx context.Context, done <-chan int) {
	trace.WithRegion(ctx, "collect", func() {
		for range 10 {
			<-done
		}
	})
	trace.Log(ctx, "jobs", "all done")
}

func ping(wg *sync.WaitGroup) {
	defer wg.Done()
	a, b := net.Pipe()
	go b.Write([]byte("x"))
	a.Read(make([]byte, 1))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	l.(*net.TCPListener).SetDeadline(time.Now().Add(2 * time.Millisecond))
	l.Accept()
}

func main() {
	runtime.GOMAXPROCS(4)
	debug.SetGCPercent(-1)
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	pprof.StartCPUProfile(&bytes.Buffer{})
	if err := trace.Start(file); err != nil {
		panic(err)
	}
	ctx, task := trace.NewTask(context.Background(), "batch")
	jobs, done := make(chan int), make(chan int)
	for range 2 {
		go worker(jobs, done)
	}
	go func() {
		for i := range 10 {
			jobs <- i
		}
		close(jobs)
	}()
	collect(ctx, done)
	task.End()

	var wg sync.WaitGroup
	wg.Add(3)
	go ping(&wg)
	go func() {
		defer wg.Done()
		syscall.Nanosleep(&syscall.Timespec{Nsec: 5e6}, nil)
	}()
	go func() {
		defer wg.Done()
		spin(25 * time.Millisecond)
		runtime.Gosched()
	}()
	next, stop := iter.Pull(func(yield func(int) bool) { yield(1) })
	next()
	stop()
	procs := runtime.GOMAXPROCS(1) // with more, the collector may yield thousands of times
	runtime.GC()
	runtime.GOMAXPROCS(procs)
	wg.Wait()
	time.Sleep(1100 * time.Millisecond) // a second generation
	go worker(make(chan int), done)     // it stays
	time.Sleep(time.Millisecond)
	trace.Stop()
	file.Close()
}
