//! SQLite behind a pool of the crate `r2d2`, which many more goroutines share than it has connections.

use r2d2::Pool;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::TransactionBehavior;

use super::common::{TempDir, alone, until};
use super::{Gate, MANY, results, until_few_threads};

const CONNECTIONS: u32 = 8;
/// r2d2 starts this many threads of its own, which open connections.
const THREADS_OF_R2D2: usize = 3;
const ROUNDS: usize = 5;

#[test]
fn goroutines_that_wait_for_a_pool_hold_no_threads() {
    if !alone("sqlite::goroutines_that_wait_for_a_pool_hold_no_threads") {
        return;
    }
    let _watchdog = super::enable();
    let dir = TempDir::new();
    let path = dir.path().join("database");
    gort::run(move || {
        let manager = SqliteConnectionManager::file(&path).with_init(|connection| {
            connection.busy_timeout(super::common::patience())?;
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        });
        let time = super::common::patience();
        let pool = Pool::builder().max_size(CONNECTIONS).connection_timeout(time).build(manager).unwrap();
        let tables = "CREATE TABLE counter (n INT); INSERT INTO counter VALUES (0);
                      CREATE TABLE steps (worker INT, before INT)";
        pool.get().unwrap().execute_batch(tables).unwrap();

        static GATE: Gate = Gate::new();
        let workers = (0..MANY)
            .map(|worker| {
                let pool = pool.clone();
                gort::spawn(move || {
                    for _ in 0..ROUNDS {
                        let mut connection = pool.get().unwrap();
                        GATE.pass();
                        // At once the right to write: SQLite sleeps while another connection has it.
                        let begin = TransactionBehavior::Immediate;
                        let transaction = connection.transaction_with_behavior(begin).unwrap();
                        let n: usize =
                            transaction.query_row("SELECT n FROM counter", [], |row| row.get(0)).unwrap();
                        transaction.execute("INSERT INTO steps VALUES (?, ?)", [worker, n]).unwrap();
                        transaction.execute("UPDATE counter SET n = ?", [n + 1]).unwrap();
                        transaction.commit().unwrap();
                    }
                })
            })
            .collect();
        until("the connections are in use, and all others wait for them", || {
            GATE.arrived() == CONNECTIONS as usize && gort::runtime::stats().goroutines.waiting >= MANY
        });
        until_few_threads("rusqlite and r2d2", THREADS_OF_R2D2);
        GATE.open();
        results::<()>(workers);

        let connection = pool.get().unwrap();
        let one = |query: &str| connection.query_row(query, [], |row| row.get::<_, usize>(0)).unwrap();
        assert_eq!(one("SELECT n FROM counter"), MANY * ROUNDS);
        assert_eq!(one("SELECT count(DISTINCT before) FROM steps"), MANY * ROUNDS);
        let workers = "SELECT count(*) FROM (SELECT 1 FROM steps GROUP BY worker HAVING count(*) = 5)";
        assert_eq!(one(workers), MANY);
    });
}
