//! A C library in goroutines: libcurl waits in poll, which parks the goroutine.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use curl::easy::Easy;

fn main() -> Result<(), curl::Error> {
    gort::transparent::enable().expect("gort is linked into the program itself");
    gort::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        gort::go!(for mut stream in listener.incoming().flatten() {
            gort::go! {
                let _request = stream.read(&mut [0; 1024]);
                std::thread::sleep(Duration::from_millis(200));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            }
        });

        let transfers: Vec<_> = (0..100)
            .map(|_| {
                gort::spawn(move || -> Result<Vec<u8>, curl::Error> {
                    let mut body = Vec::new();
                    let mut easy = Easy::new();
                    easy.url(&format!("http://{address}/"))?;
                    let mut transfer = easy.transfer();
                    transfer.write_function(|part| {
                        body.extend_from_slice(part);
                        Ok(part.len())
                    })?;
                    transfer.perform()?;
                    drop(transfer);
                    Ok(body)
                })
            })
            .collect();
        for transfer in transfers {
            assert_eq!(transfer.join().unwrap()?, b"hello");
        }
        println!("100 transfers at once");
        Ok(())
    })
}
