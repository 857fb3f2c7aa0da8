//! libcurl, a C library that the program is linked with, by means of the crate `curl`. It waits in poll.

use std::sync::Arc;

use curl::easy::Easy;

use super::common::{alone, until};
use super::http::{answer, serve};
use super::{Gate, MANY, results, until_few_threads};

fn get(url: &str, body: Option<&[u8]>) -> Vec<u8> {
    let mut transfer = Easy::new();
    transfer.url(url).unwrap();
    if let Some(body) = body {
        transfer.post(true).unwrap();
        transfer.post_fields_copy(body).unwrap();
    }
    let mut all = Vec::new();
    let mut receiving = transfer.transfer();
    let write = |part: &[u8]| {
        all.extend_from_slice(part);
        Ok(part.len())
    };
    receiving.write_function(write).unwrap();
    receiving.perform().unwrap();
    drop(receiving);
    assert_eq!(transfer.response_code().unwrap(), 200);
    all
}

#[test]
fn transfers_that_wait_hold_no_threads() {
    if !alone("curl::transfers_that_wait_hold_no_threads") {
        return;
    }
    println!("libcurl {}", curl::Version::get().version());
    let _watchdog = super::enable();
    gort::run(|| {
        let gate = Arc::new(Gate::new());
        let address = serve(Arc::clone(&gate));
        let clients = (0..MANY)
            .map(|n| {
                gort::spawn(move || {
                    let path = format!("/wait/{n}");
                    assert!(get(&format!("http://{address}{path}"), None) == answer(&path, b""));
                    let (path, body) = (format!("/{n}"), vec![n as u8; 200_000 + n]);
                    assert!(get(&format!("http://{address}{path}"), Some(&body)) == answer(&path, &body));
                })
            })
            .collect();
        until("all requests wait", || gate.arrived() == MANY);
        until_few_threads("libcurl", 0);
        gate.open();
        results::<()>(clients);
    });
}
