//! SQLite behind `r2d2`: 300 goroutines share four connections, and wait for them without a thread.

use std::time::Duration;

use r2d2_sqlite::SqliteConnectionManager;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    gort::transparent::enable()?;
    gort::run(|| {
        let path = std::env::temp_dir().join(format!("transparent_sqlite.{}", std::process::id()));
        let manager = SqliteConnectionManager::file(&path).with_init(|connection| {
            connection.busy_timeout(Duration::from_secs(60))?; // Sleeps, which parks the goroutine, too.
            connection.execute_batch("PRAGMA synchronous = OFF")
        });
        let pool = r2d2::Pool::builder().max_size(4).build(manager)?;
        pool.get()?.execute_batch("CREATE TABLE squares (n INT, square INT)")?;
        let workers: Vec<_> = (0..300)
            .map(|n| {
                let pool = pool.clone();
                gort::spawn(move || {
                    let connection = pool.get().unwrap();
                    connection.execute("INSERT INTO squares VALUES (?, ?)", [n, n * n]).unwrap();
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let sum = pool.get()?.query_row("SELECT sum(square) FROM squares", [], |row| row.get::<_, i64>(0))?;
        println!("the sum of 300 squares is {sum}");
        Ok(std::fs::remove_file(path)?)
    })
}
