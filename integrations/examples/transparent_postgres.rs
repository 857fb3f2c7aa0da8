//! The `postgres` crate: `transparent_postgres CONFIGURATION`. Each client drives a Tokio runtime inside, in
//! the goroutine that calls it; also its `epoll_wait` parks the goroutine.

use postgres::{Client, Error, NoTls};

fn main() -> Result<(), Error> {
    gort::transparent::enable().expect("gort is linked into the program itself");
    let configuration = std::env::args().nth(1).expect("for example: host=localhost user=postgres");
    gort::run(|| {
        let clients: Vec<_> = (0..50)
            .map(|n: i64| {
                let configuration = configuration.clone();
                gort::spawn(move || -> Result<i64, Error> {
                    let mut client = Client::connect(&configuration, NoTls)?;
                    client.batch_execute("SELECT pg_sleep(0.2)")?;
                    Ok(client.query_one("SELECT $1::bigint + 1", &[&n])?.get(0))
                })
            })
            .collect();
        let mut sum = 0;
        for client in clients {
            sum += client.join().unwrap()?;
        }
        println!("50 clients: {sum}");
        Ok(())
    })
}
