//! Sends commands of the `redis` crate over gort's streams to a redis-server: `redis ADDRESS`.

use std::io::Write;

use gort::net::TcpStream;
use redis::{Cmd, Parser, Value, cmd};

/// A connection to Redis. The crate's own connection type creates its own socket, but the crate's encoder and
/// parser work with any stream.
struct Connection {
    stream: TcpStream,
    parser: Parser,
}

impl Connection {
    fn open(address: &str) -> std::io::Result<Connection> {
        Ok(Connection { stream: TcpStream::connect(address)?, parser: Parser::new() })
    }

    fn call(&mut self, command: &Cmd) -> redis::RedisResult<Value> {
        self.stream.write_all(&command.get_packed_command())?;
        self.parser.parse_value(&mut self.stream)
    }
}

#[gort::main]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("the address of a redis-server, please")?;
    let workers: Vec<_> = (0..50)
        .map(|n| {
            let address = address.clone();
            gort::spawn(move || {
                let mut redis = Connection::open(&address).unwrap();
                for _ in 0..20 {
                    redis.call(cmd("INCR").arg("counter")).unwrap();
                }
                redis.call(cmd("SET").arg(format!("key {n}")).arg(vec![n; 10_000])).unwrap();
                let Value::BulkString(bytes) = redis.call(cmd("GET").arg(format!("key {n}"))).unwrap() else {
                    panic!("GET gives bytes");
                };
                assert_eq!(bytes, vec![n; 10_000]);
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let mut redis = Connection::open(&address)?;
    let Value::BulkString(counter) = redis.call(cmd("GET").arg("counter"))? else {
        return Err("no counter".into());
    };
    println!("50 goroutines counted to {}", String::from_utf8(counter)?);
    Ok(())
}
