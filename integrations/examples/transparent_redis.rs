//! The `redis` crate's own connections: `transparent_redis URL`. 100 goroutines wait for their turn in BLPOP,
//! each with a connection of its own, and none holds a thread.

use redis::{Client, Commands, RedisResult};

fn main() -> RedisResult<()> {
    gort::transparent::enable().expect("gort is linked into the program itself");
    let url = std::env::args().nth(1).expect("the URL of a redis-server");
    gort::run(|| {
        let client = Client::open(url)?;
        let workers: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                gort::spawn(move || -> RedisResult<usize> {
                    let mut redis = client.get_connection()?;
                    let (_, number): (String, usize) = redis.blpop("numbers", 0.0)?;
                    redis.incr("sum", number)
                })
            })
            .collect();
        let mut redis = client.get_connection()?;
        let _: usize = redis.rpush("numbers", (0..100).collect::<Vec<_>>())?;
        for worker in workers {
            worker.join().unwrap()?;
        }
        println!("the sum is {}", redis.get::<_, usize>("sum")?);
        Ok(())
    })
}
