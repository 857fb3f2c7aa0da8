//! A client that sees each byte of the answers.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

use gort::net::TcpStream;

pub(crate) struct Client(pub(crate) BufReader<TcpStream>);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        self.answer().unwrap()
    }

    /// Reads the status line and the headers of an answer.
    pub(crate) fn head(&mut self) -> io::Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(head)
    }

    /// Reads a whole answer, or the end of the connection.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        let status = head[9..12].parse().unwrap();
        let value = |name: &str| {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(|v| v.trim().to_owned()))
        };
        let mut body = Vec::new();
        if let Some(length) = value("content-length:") {
            body.resize(length.parse().unwrap(), 0);
            self.0.read_exact(&mut body)?;
        } else if value("transfer-encoding:").is_some() {
            loop {
                let mut size = String::new();
                if self.0.read_line(&mut size)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
                self.0.read_exact(&mut chunk)?;
                if chunk.len() == 2 {
                    break;
                }
                body.extend_from_slice(&chunk[..chunk.len() - 2]);
            }
        }
        Ok(Answer { status, head, body })
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}
