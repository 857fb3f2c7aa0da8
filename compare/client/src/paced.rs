//! A load at a fixed rate: what a server costs that has little to do.

use crate::{Connection, Request, check};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Sends `rate` requests a second, evenly spaced, over the connections in turn, until the time is over. A
/// connection that still waits for its answer is left out; if all of them wait, the next request is late.
/// Latencies are counted from the moment of sending.
pub fn serve(
    epoll: &OwnedFd,
    connections: &mut [Connection],
    time: Duration,
    latencies: &mut Vec<u64>,
    request: &Request,
    rate: u64,
) -> io::Result<()> {
    wake_up_on_time();
    let start = Instant::now();
    let mut waits = vec![false; connections.len()];
    let (mut sent, mut turn) = (0u64, 0);
    loop {
        let next = start + Duration::from_nanos(sent * 1_000_000_000 / rate);
        let now = Instant::now();
        let over = now >= start + time;
        if over && !waits.contains(&true) {
            return Ok(());
        }
        let free = (0..connections.len()).map(|n| (turn + n) % connections.len()).find(|&n| !waits[n]);
        if let Some(chosen) = free
            && !over
            && now >= next
        {
            connections[chosen].send(request)?;
            waits[chosen] = true;
            (sent, turn) = (sent + 1, chosen + 1);
            continue;
        }
        let pause = if free.is_some() && !over { next.saturating_duration_since(now) } else { time };
        for index in wait(epoll, pause)? {
            if connections[index].receive(request)? {
                waits[index] = false;
                latencies.push(connections[index].sent_at.elapsed().as_nanos() as u64);
            }
        }
    }
}

/// Waits for answers, for no longer than `pause`. Returns the connections that have some.
fn wait(epoll: &OwnedFd, pause: Duration) -> io::Result<impl Iterator<Item = usize>> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let pause = libc::timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
    // SAFETY: the kernel reads the time and writes at most as many events as the array has room for.
    let ready = check(unsafe {
        libc::epoll_pwait2(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as i32,
            &raw const pause,
            std::ptr::null(),
        )
    })?;
    Ok(events.into_iter().take(ready as usize).map(|event| event.u64 as usize))
}

/// Without this, the kernel may let the thread sleep 50 µs longer than asked.
fn wake_up_on_time() {
    // SAFETY: the call passes no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
