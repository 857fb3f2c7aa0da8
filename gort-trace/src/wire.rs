//! Reads bytes and LEB128 numbers of a part of the file. Every error has an offset in the file.

use crate::error::Error;

/// A position in `file`, and the end of the part that may be read.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// Reads the bytes of `file` from `at` to before `end`. An `end` after the file's end means the file's.
    pub(crate) fn new(file: &'a [u8], at: usize, end: usize) -> Cursor<'a> {
        let end = end.min(file.len());
        Cursor { file, at: at.min(end), end }
    }

    /// The offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// The end of what may be read was met. Only the end of the file means that the file is cut.
    fn missing(&self, what: &str) -> Error {
        if self.end == self.file.len() {
            Error::truncated(self.at, format!("the file ends inside of {what}"))
        } else {
            Error::broken(self.at, format!("the batch ends inside of {what}"))
        }
    }

    pub(crate) fn byte(&mut self, what: &str) -> Result<u8, Error> {
        if self.is_at_end() {
            return Err(self.missing(what));
        }
        let byte = self.file[self.at];
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn bytes(&mut self, count: usize, what: &str) -> Result<&'a [u8], Error> {
        if count > self.end - self.at {
            return Err(self.missing(what));
        }
        let bytes = &self.file[self.at..self.at + count];
        self.at += count;
        Ok(bytes)
    }

    /// An unsigned LEB128 number of at most 64 bits.
    pub(crate) fn number(&mut self, what: &str) -> Result<u64, Error> {
        let start = self.at;
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::broken(start, format!("{what} is a number of more than 64 bits")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> Result<u64, Error> {
        Cursor::new(bytes, 0, usize::MAX).number("x")
    }

    #[test]
    fn numbers_are_leb128_of_at_most_64_bits() {
        assert_eq!(number(&[0]), Ok(0));
        assert_eq!(number(&[0x80, 1]), Ok(128));
        assert_eq!(number(&[0xff; 9].iter().copied().chain([1]).collect::<Vec<_>>()), Ok(u64::MAX));
        let long: Vec<u8> = [0xff; 9].into_iter().chain([2]).collect();
        assert!(number(&long).unwrap_err().what.contains("more than 64 bits"));
        assert!(number(&[0x80; 11]).unwrap_err().what.contains("more than 64 bits"));
    }

    #[test]
    fn the_end_of_a_batch_is_not_the_end_of_the_file() {
        assert!(number(&[0x80]).unwrap_err().truncated);
        let batch = Cursor::new(&[0x80, 1], 0, 1).number("x").unwrap_err();
        assert_eq!((batch.offset, batch.truncated), (1, false));
    }
}
