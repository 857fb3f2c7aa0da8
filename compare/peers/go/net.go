// Group "net": servers.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// tcpEcho has a goroutine for each connection. Go sets TCP_NODELAY by itself.
func tcpEcho(a args) report {
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
	return echoReport(listener.Addr().String(), a.sizeOr(64))
}

// echoReport lets the client, a process of its own, work on the server; see compare/peers/common/src/echo.rs.
func echoReport(address string, connections int) report {
	client := exec.Command(os.Getenv("COMPARE_CLIENT"), address, strconv.Itoa(connections), "1500")
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
	before := cpuNs()
	lines.Scan()
	cpu := cpuNs() - before
	var requests, nanos, p50, p99 int64
	if n, _ := fmt.Sscan(lines.Text(), &requests, &nanos, &p50, &p99); n != 4 {
		fmt.Fprintln(os.Stderr, "the client said", lines.Text())
		os.Exit(3)
	}
	client.Wait()
	return report{ops: int(requests), time: time.Duration(nanos)}.
		with("cpu_ns", float64(cpu)/float64(requests)).
		with("p50_ns", float64(p50)).
		with("p99_ns", float64(p99))
}
