//! The file's outer structure: a header, then batches and marks that end a generation.

use std::ops::Range;

use crate::error::Error;
use crate::spec;
use crate::wire::Cursor;

/// The first 16 bytes of every file that this crate reads.
const HEADER: &[u8; 16] = b"go 1.26 trace\0\0\0";

/// A batch. Its events are decoded later.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) generation: u64,
    pub(crate) m: u64,
    /// In units of the generation's clock.
    pub(crate) time: u64,
    /// Where the events are in the file.
    pub(crate) data: Range<usize>,
    /// The format of an experiment, which this crate does not read.
    pub(crate) experimental: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Batch(Batch),
    EndOfGeneration,
}

/// Checks the header. Returns the offset of the first batch.
pub(crate) fn header(file: &[u8]) -> Result<usize, Error> {
    if file.starts_with(HEADER) {
        return Ok(HEADER.len());
    }
    if HEADER.starts_with(file) {
        return Err(Error::truncated(file.len(), "the file ends inside of the header"));
    }
    let Some(rest) = file.strip_prefix(b"go 1.") else {
        return Err(Error::broken(0, "this is no Go execution trace: it does not begin with \"go 1.\""));
    };
    let digits: String =
        rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect();
    Err(Error::broken(
        0,
        format!(
            "the format is that of Go 1.{digits}; only that of Go 1.26, which 1.27 writes, too, is known"
        ),
    ))
}

/// The batch or mark at the cursor; `None` at the end of the file.
pub(crate) fn next(cursor: &mut Cursor<'_>) -> Result<Option<Piece>, Error> {
    if cursor.is_at_end() {
        return Ok(None);
    }
    let start = cursor.at();
    let kind = cursor.byte("a batch")?;
    let experimental = match kind {
        spec::END_OF_GENERATION => return Ok(Some(Piece::EndOfGeneration)),
        spec::EVENT_BATCH => false,
        spec::EXPERIMENTAL_BATCH => {
            cursor.byte("a batch's experiment")?;
            true
        }
        other => return Err(Error::broken(start, format!("expected a batch, found event type {other}"))),
    };
    let generation = cursor.number("a batch's generation")?;
    if generation == 0 {
        return Err(Error::broken(start, "a batch of generation 0"));
    }
    let m = cursor.number("a batch's M")?;
    let time = cursor.number("a batch's time")?;
    let length = cursor.number("a batch's length")?;
    if length > spec::MAX_BATCH {
        return Err(Error::broken(
            start,
            format!("a batch of {length} bytes; at most {} are allowed", spec::MAX_BATCH),
        ));
    }
    let begin = cursor.at();
    cursor.bytes(length as usize, "a batch")?; // at most MAX_BATCH
    Ok(Some(Piece::Batch(Batch { generation, m, time, data: begin..cursor.at(), experimental })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_and_other_files_are_named() {
        assert_eq!(header(HEADER), Ok(16));
        assert!(header(b"go 1.22 trace\0\0\0").unwrap_err().what.contains("Go 1.22"));
        assert!(header(b"\x7fELF").unwrap_err().what.contains("no Go execution trace"));
        assert!(header(b"go 1.26 tr").unwrap_err().truncated);
        assert!(header(b"").unwrap_err().truncated);
    }
}
