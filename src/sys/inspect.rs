//! Reads from /proc what this process's threads do and what is in its memory. This runs while all other
//! threads are stopped, perhaps inside the allocator, so nothing here allocates, takes a lock or uses a
//! thread-local.

use std::ffi::CStr;
use std::ops::Range;

use super::mem::PAGE;
use super::syscall::syscall6;

/// An open file of /proc, closed when dropped.
pub(crate) struct File(usize);

impl File {
    pub(crate) fn open(path: &CStr) -> Option<File> {
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
        let at = libc::AT_FDCWD as isize as usize;
        // SAFETY: the path is NUL-terminated.
        let fd = unsafe { syscall6(libc::SYS_openat, at, path.as_ptr() as usize, flags, 0, 0, 0) };
        usize::try_from(fd).ok().map(File)
    }

    /// Reads from `offset` on, and returns the number of bytes. `None` if the read fails.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let (at, len) = (buffer.as_mut_ptr() as usize, buffer.len());
        // SAFETY: the kernel writes no more than the buffer's length.
        let read = unsafe { syscall6(libc::SYS_pread64, self.0, at, len, offset as usize, 0, 0) };
        usize::try_from(read).ok()
    }

    /// Reads the whole file. `None` if it does not fit into the buffer or a read fails.
    pub(crate) fn read_all<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let mut len = 0;
        loop {
            match self.read_at(&mut buffer[len..], len as u64)? {
                0 if len == buffer.len() => return None,
                0 => return Some(&buffer[..len]),
                read => len += read,
            }
        }
    }
}

/// Copies what is at `address` of this process to `words`. False: it cannot be read.
pub(crate) fn copy_memory(address: usize, words: &mut [usize]) -> bool {
    let len = size_of_val(words);
    // SAFETY: words may hold any bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), len) };
    let read = File::open(c"/proc/self/mem").and_then(|memory| memory.read_at(bytes, address as u64));
    read == Some(len)
}

/// Copies what is at `address` of this process to `bytes`, up to the first page that cannot be read. Returns
/// how many bytes that were. Makes one system call that needs no descriptor: safe in a signal handler.
///
/// # Safety
/// The `length` bytes at `to` may be written.
#[cfg(feature = "debug")]
pub(crate) unsafe fn copy_up_to(address: usize, to: *mut u8, length: usize) -> usize {
    let local = libc::iovec { iov_base: to.cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: length };
    // SAFETY: the kernel reads the two records, and writes what the caller allows to be written.
    let copied = unsafe {
        syscall6(
            libc::SYS_process_vm_readv,
            libc::getpid() as usize,
            &raw const local as usize,
            1,
            &raw const remote as usize,
            1,
            0,
        )
    };
    usize::try_from(copied).unwrap_or(0)
}

/// The word at an address of this process, if there is memory that can be read.
pub(crate) fn word_at(address: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    let read = File::open(c"/proc/self/mem")?.read_at(&mut bytes, address as u64)?;
    (read == bytes.len()).then(|| usize::from_ne_bytes(bytes))
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor.
        unsafe { syscall6(libc::SYS_close, self.0, 0, 0, 0, 0, 0) };
    }
}

/// Calls `f` with the id of every thread of this process. Returns false if the threads cannot be listed.
pub(crate) fn threads(mut f: impl FnMut(u32)) -> bool {
    let Some(directory) = File::open(c"/proc/self/task") else { return false };
    let mut buffer = [0u64; 512];
    loop {
        let (at, len) = (buffer.as_mut_ptr() as usize, size_of_val(&buffer));
        // SAFETY: the kernel writes no more than the buffer's length.
        let read = unsafe { syscall6(libc::SYS_getdents64, directory.0, at, len, 0, 0, 0) };
        let Ok(read) = usize::try_from(read) else { return false };
        if read == 0 {
            return true;
        }
        // SAFETY: the kernel has written `read` bytes.
        let mut rest = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), read) };
        // A record: inode (8 bytes), offset (8), the record's length (2), type (1), name.
        while let Some(length) = rest.get(16..18) {
            let length = usize::from(u16::from_le_bytes([length[0], length[1]])).clamp(19, rest.len());
            let (record, others) = rest.split_at(length);
            if let Some(tid) = number(&mut record[19..].iter().copied(), 10) {
                f(tid as u32);
            }
            rest = others;
        }
    }
}

/// Whether a thread is in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InKernel {
    /// It is in none: it computes, or waits for a CPU or a page.
    No,
    /// It is in the call `number`, which returns to the address `end`, with the stack pointer `sp`.
    Call {
        number: i64,
        sp: usize,
        end: usize,
    },
    Unknown,
}

/// The system call in which the thread `tid` of this process is.
pub(crate) fn in_kernel(tid: u32) -> InKernel {
    let mut path = *b"/proc/self/task/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0u8; 10];
    let (mut left, mut first) = (tid, digits.len());
    while left != 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let digits = &digits[first..];
    path[16..16 + digits.len()].copy_from_slice(digits);
    path[16 + digits.len()..][..8].copy_from_slice(b"/syscall");
    let Some(file) = CStr::from_bytes_until_nul(&path).ok().and_then(File::open) else {
        return InKernel::Unknown;
    };
    let mut text = [0u8; 256];
    let Some(text) = file.read_all(&mut text) else { return InKernel::Unknown };
    // The text is "running", or "-1 sp pc", or "number six-arguments sp pc".
    let mut words = text.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let hex = |word: &[u8]| word.strip_prefix(b"0x").and_then(|word| number(&mut word.iter().copied(), 16));
    match words.next() {
        Some(b"running" | b"-1") => InKernel::No,
        Some(word) => {
            let (end, sp) = (words.next_back().and_then(hex), words.next_back().and_then(hex));
            match (number(&mut word.iter().copied(), 10), sp, end) {
                (Some(number), Some(sp), Some(end)) => InKernel::Call { number: number as i64, sp, end },
                _ => InKernel::Unknown,
            }
        }
        None => InKernel::Unknown,
    }
}

/// Parses the number at the beginning of `digits`. Also consumes the character behind it.
fn number(digits: &mut impl Iterator<Item = u8>, radix: u32) -> Option<usize> {
    let mut found = None;
    for digit in digits.by_ref() {
        let Some(value) = char::from(digit).to_digit(radix) else { break };
        found = Some(found.unwrap_or(0usize).checked_mul(radix as usize)?.checked_add(value as usize)?);
    }
    found
}

/// What a mapping is for, as far as its line in /proc/self/maps says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The memory that `brk` has made: the heap of malloc's main arena.
    Heap,
    /// Memory without a file and a name.
    Anonymous,
    Other,
}

/// Calls `f` with the addresses of every mapping that is readable and may have been written to, in ascending
/// order. `maps` is the text of /proc/self/maps.
pub(crate) fn written_mappings(maps: &[u8], mut f: impl FnMut(Range<usize>, Kind)) {
    for line in maps.split(|&b| b == b'\n') {
        let mut bytes = line.iter().copied();
        let (Some(start), Some(end)) = (number(&mut bytes, 16), number(&mut bytes, 16)) else { continue };
        let mut rest = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty()).skip(1);
        let (Some(rights), Some(inode)) = (rest.next(), rest.nth(2)) else { continue };
        let anonymous = inode == b"0" && !line.ends_with(b"]");
        if rights[0] == b'r' && (rights[1] == b'w' || anonymous) {
            let kind = match anonymous {
                true => Kind::Anonymous,
                false if line.ends_with(b" [heap]") => Kind::Heap,
                false => Kind::Other,
            };
            f(start..end, kind);
        }
    }
}

/// Reads the memory of this process without ever faulting.
pub(crate) struct Memory {
    memory: File,
    pagemap: Option<File>,
}

impl Memory {
    pub(crate) fn open() -> Option<Memory> {
        Some(Memory { memory: File::open(c"/proc/self/mem")?, pagemap: File::open(c"/proc/self/pagemap") })
    }

    /// Calls `f` with the address and the words of each page in `range` that has ever been touched. `range`
    /// consists of whole pages; `buffer` has room for one page.
    pub(crate) fn each(&self, range: Range<usize>, buffer: &mut [usize], mut f: impl FnMut(usize, &[usize])) {
        const BATCH: usize = 64;
        let mut present = [0u64; BATCH];
        let mut at = range.start;
        while at < range.end {
            let pages = ((range.end - at) / PAGE).min(BATCH);
            if pages == 0 {
                return;
            }
            self.presence(at, &mut present[..pages]);
            for (page, _) in present[..pages].iter().enumerate().filter(|&(_, &present)| present != 0) {
                let words = &mut buffer[..PAGE / size_of::<usize>()];
                // SAFETY: any bytes make valid integers, and the slice covers exactly the words' memory.
                let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), PAGE) };
                // A guard page cannot be read; it holds nothing.
                if self.memory.read_at(bytes, (at + page * PAGE) as u64) == Some(PAGE) {
                    f(at + page * PAGE, words);
                }
            }
            at += pages * PAGE;
        }
    }

    /// Sets one word for each page from `start` on: nonzero if the page is in memory or swapped out. If that
    /// cannot be read, all words are nonzero.
    fn presence(&self, start: usize, pages: &mut [u64]) {
        /// The bits of a pagemap entry that say "present" and "swapped".
        const TOUCHED: u64 = 3 << 62;
        let bytes = size_of_val(pages);
        // SAFETY: any bytes make valid integers, and the view covers exactly the words' memory.
        let view = unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast::<u8>(), bytes) };
        let read = self.pagemap.as_ref().and_then(|file| file.read_at(view, (start / PAGE * 8) as u64));
        if read == Some(bytes) {
            pages.iter_mut().for_each(|page| *page &= TOUCHED);
        } else {
            pages.fill(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_what_they_do_are_seen() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            sender.send(crate::sys::thread::tid()).unwrap();
            std::thread::park();
        });
        let tid = receiver.recv().unwrap();
        let mut found = Vec::new();
        assert!(threads(|tid| found.push(tid)));
        assert!(found.contains(&tid) && found.contains(&crate::sys::thread::tid()));
        while !matches!(in_kernel(tid), InKernel::Call { number: libc::SYS_futex, .. }) {
            std::thread::yield_now();
        }
        assert_eq!(in_kernel(0), InKernel::Unknown);
        other.thread().unpark();
        other.join().unwrap();
    }

    #[test]
    fn mappings_and_memory_are_read() {
        let mut text = vec![0; 1 << 20];
        let maps = File::open(c"/proc/self/maps").unwrap();
        let maps = maps.read_all(&mut text).unwrap();
        let value = Box::new([0x1234_5678_9abc_def0_usize; 3]);
        let place = value.as_ptr() as usize;
        let memory = Memory::open().unwrap();
        let (mut seen, mut buffer) = (false, vec![0; 512]);
        written_mappings(maps, |range, _| {
            if range.contains(&place) {
                memory.each(range, &mut buffer, |_, words| seen |= words.contains(&value[0]));
            }
        });
        assert!(seen);
        assert!(File::open(c"/proc/self/maps").unwrap().read_all(&mut text[..100]).is_none());
    }
}
