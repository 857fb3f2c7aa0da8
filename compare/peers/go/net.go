// Group "net": servers.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

func tcpEcho(a args) report {
	return loadReport(echoServer(), a.sizeOr(64))
}

// echoRate has 50 connections and a load of a fixed rate; see compare/peers/common/src/echo.rs.
func echoRate(a args) report {
	return loadFor("3000", echoServer(), 50, "@"+strconv.Itoa(a.sizeOr(1000)))
}

// echoServer has a goroutine for each connection. Go sets TCP_NODELAY by itself.
func echoServer() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, 1024)
				for {
					n, err := connection.Read(buf)
					if err != nil {
						return
					}
					if _, err := connection.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// serve starts net/http's server.
func serve(handler http.HandlerFunc) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, handler)
	return listener.Addr().String()
}

func hello(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, "Hello, World!")
}

func httpHello(a args) report {
	return loadReport(serve(hello), a.sizeOr(64), "/")
}

// httpCPU computes for 200 µs for each request.
func httpCPU(a args) report {
	return loadReport(serve(func(w http.ResponseWriter, _ *http.Request) {
		start := time.Now()
		sum := uint64(0)
		for time.Since(start) < 200*time.Microsecond {
			for n := range uint64(100) {
				sum = sum*6364136223846793005 + n
			}
		}
		io.WriteString(w, strconv.FormatUint(sum, 10))
	}), a.sizeOr(256), "/")
}

// httpBlock blocks for 5 ms in the kernel for each request.
func httpBlock(a args) report {
	return loadReport(serve(func(w http.ResponseWriter, r *http.Request) {
		syscall.Nanosleep(&syscall.Timespec{Nsec: 5_000_000}, nil)
		hello(w, r)
	}), a.sizeOr(256), "/")
}

// httpIdle reports the memory of each idle connection; see compare/peers/common/src/echo.rs.
func httpIdle(a args) report {
	address, connections := serve(hello), a.sizeOr(8000)
	start, before := time.Now(), memory()
	client := exec.Command(os.Getenv("COMPARE_CLIENT"), address, strconv.Itoa(connections), "0", "/")
	client.Stderr = os.Stderr
	in, err := client.StdinPipe()
	if err != nil {
		panic(err)
	}
	out, err := client.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := client.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the client:", err)
		os.Exit(3)
	}
	if !bufio.NewScanner(out).Scan() {
		fmt.Fprintln(os.Stderr, "the client ended early")
		os.Exit(3)
	}
	took := time.Since(start)
	time.Sleep(5 * time.Second)
	each := float64(memory()-before) / float64(connections)
	in.Close()
	client.Wait()
	return report{ops: connections, time: took}.with("bytes_each", each)
}

// loadReport runs the client, which is a separate process, against the server; see
// compare/peers/common/src/echo.rs.
func loadReport(address string, connections int, path ...string) report {
	return loadFor("1500", address, connections, path...)
}

// loadFor runs the client for so many milliseconds; what is a path for HTTP, a rate, or nothing.
func loadFor(millis, address string, connections int, what ...string) report {
	words := append([]string{address, strconv.Itoa(connections), millis}, what...)
	client := exec.Command(os.Getenv("COMPARE_CLIENT"), words...)
	client.Stderr = os.Stderr
	out, err := client.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := client.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot start the client:", err)
		os.Exit(3)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	before, switchesBefore := cpuNs(), contextSwitches()
	lines.Scan()
	cpu, switches := cpuNs()-before, contextSwitches()-switchesBefore
	var requests, nanos, p50, p99 int64
	if n, _ := fmt.Sscan(lines.Text(), &requests, &nanos, &p50, &p99); n != 4 {
		fmt.Fprintln(os.Stderr, "the client said", lines.Text())
		os.Exit(3)
	}
	client.Wait()
	return report{ops: int(requests), time: time.Duration(nanos)}.
		with("cpu_ns", float64(cpu)/float64(requests)).
		with("switches", float64(switches)/float64(requests)).
		with("p50_ns", float64(p50)).
		with("p99_ns", float64(p99))
}
