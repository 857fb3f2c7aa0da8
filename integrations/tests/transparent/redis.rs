//! The `redis` crate's own connections, against a redis-server.

use redis::{Client, Commands, Connection};

use super::common::until;
use super::servers::Redis;
use super::{MANY, client_of, results, server, until_few_threads};

#[test]
fn clients_that_wait_hold_no_threads() {
    if let Some(server) = server() {
        return wait_in_clients(server);
    }
    let Some(server) = Redis::start() else { return };
    client_of(&server.url(), "redis::clients_that_wait_hold_no_threads");
}

fn wait_in_clients(url: String) {
    let _watchdog = super::enable();
    gort::run(move || {
        let client = Client::open(url).unwrap();
        let waiting: Vec<_> = (0..MANY)
            .map(|n| {
                let client = client.clone();
                gort::spawn(move || {
                    let mut redis = client.get_connection().unwrap();
                    let (list, value): (String, Vec<u8>) = redis.blpop(format!("list {n}"), 0.0).unwrap();
                    assert_eq!(list, format!("list {n}"));
                    let _: () = redis.set(format!("got {n}"), &value).unwrap();
                    for _ in 0..10 {
                        let _: usize = redis.incr("counter", 1).unwrap();
                    }
                    value
                })
            })
            .collect();

        let mut redis = client.get_connection().unwrap();
        until("all wait for their lists", || blocked_clients(&mut redis) == MANY);
        until_few_threads("redis", 0);

        // More than a socket's buffer takes at once.
        let value = |n: usize| vec![n as u8; 300_000 + n];
        for n in 0..MANY {
            let _: usize = redis.rpush(format!("list {n}"), value(n)).unwrap();
        }
        for (n, got) in results(waiting).into_iter().enumerate() {
            assert!(got == value(n), "client {n}: {} bytes", got.len());
            assert!(redis.get::<_, Vec<u8>>(format!("got {n}")).unwrap() == got);
        }
        assert_eq!(redis.get::<_, usize>("counter").unwrap(), 10 * MANY);
    });
}

fn blocked_clients(redis: &mut Connection) -> usize {
    let info: String = ::redis::cmd("INFO").arg("clients").query(redis).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap();
    line.trim().parse().unwrap()
}
