//! The `postgres` crate, against a PostgreSQL server.
//!
//! Each of its clients drives a Tokio runtime of its own, of the kind `current_thread`: it waits in
//! `epoll_wait` on the thread that called the client. So its waits park the goroutine, too, and it starts no
//! threads, unless it has to look up the name of a host.

use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, NoTls};

use super::common::until;
use super::servers::Postgres;
use super::{MANY, client_of, results, server, until_few_threads};

#[test]
fn clients_that_wait_hold_no_threads() {
    if let Some(server) = server() {
        return wait_in_clients(server);
    }
    let Some(server) = Postgres::start() else { return };
    client_of(&server.url(), "postgres::clients_that_wait_hold_no_threads");
}

fn wait_in_clients(server: String) {
    let _watchdog = super::enable();
    gort::run(move || {
        let connect = move || Client::connect(&server, NoTls).unwrap();
        let mut control = connect();
        let schema = "CREATE TABLE done (n INT PRIMARY KEY, text TEXT); SELECT pg_advisory_lock(1)";
        control.batch_execute(schema).unwrap();
        let waiting: Vec<_> = (0..MANY as i32)
            .map(|n| {
                let connect = connect.clone();
                gort::spawn(move || {
                    let mut client = connect();
                    client.batch_execute("LISTEN finish").unwrap();
                    let lock = "SELECT $1 * 2 FROM pg_advisory_lock_shared(1)";
                    let double: i32 = client.query_one(lock, &[&n]).unwrap().get(0);
                    // More than a socket's buffer takes at once.
                    let text = n.to_string().repeat(100_000);
                    let mut transaction = client.transaction().unwrap();
                    let insert = "INSERT INTO done VALUES ($1, $2) RETURNING text";
                    let row = transaction.query_one(insert, &[&n, &text]).unwrap();
                    assert!(row.get::<_, String>(0) == text);
                    transaction.commit().unwrap();
                    let finish = client.notifications().blocking_iter().next().unwrap().unwrap();
                    (double, finish.payload().to_owned())
                })
            })
            .collect();

        let ungranted = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        until("all wait for the lock", || {
            control.query_one(ungranted, &[]).unwrap().get::<_, i64>(0) == MANY as i64
        });
        until_few_threads("postgres", 0);
        control.batch_execute("SELECT pg_advisory_unlock(1)").unwrap();

        let done = "SELECT count(*), count(DISTINCT text) FROM done";
        until("all have written", || control.query_one(done, &[]).unwrap().get::<_, i64>(0) == MANY as i64);
        assert_eq!(control.query_one(done, &[]).unwrap().get::<_, i64>(1), MANY as i64);
        control.batch_execute("NOTIFY finish, 'now'").unwrap();
        for (n, result) in results(waiting).into_iter().enumerate() {
            assert_eq!(result, (2 * n as i32, "now".to_owned()));
        }
    });
}
