//! The objects of the process: the program and its libraries, with their code and their unwind tables.
//!
//! The dynamic loader has a list of them, with a lock that a thread may hold for as long as it likes: it
//! calls `dl_iterate_phdr`, whose callback waits. And what the list points to may be unloaded as soon as the
//! lock is released. So the list is not asked. /proc/self/maps says where files are mapped, and what is there
//! is read from /proc/self/mem: that waits for no thread of the process, and cannot fault.
//!
//! An object is where the beginning of an ELF file is mapped, and where its segments of code are mapped as
//! code. (A file that is mapped to be read, such as by a debugger's library, has no code there.) It may be
//! unloaded, and another one be loaded to its place, at any time: [`Object::is_loaded`] tells.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::inspect::File;
use super::mem::PAGE;

/// An object, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// `[vdso]` for the one that the kernel brings.
    pub(crate) path: PathBuf,
    pub(crate) code: Vec<Code>,
    /// All segments.
    pub(crate) segments: Vec<Range<usize>>,
    /// The index of its unwind tables (`.eh_frame_hdr`).
    pub(crate) unwind_index: Option<Range<usize>>,
    /// In hexadecimal digits; empty if it has none.
    pub(crate) build_id: String,
    /// What tells it from others at the same place: addresses, and the bytes there (headers and notes).
    marks: Vec<(usize, Vec<u8>)>,
}

/// A segment of code, in whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) addresses: Range<usize>,
    pub(crate) file_offset: usize,
}

/// A line of /proc/self/maps.
struct Mapping<'a> {
    addresses: Range<usize>,
    rights: &'a [u8],
    /// Where it begins in its file.
    offset: usize,
    /// Device and inode.
    file: [&'a [u8]; 2],
    path: &'a [u8],
}

/// All objects, the program first. Empty if /proc cannot be read.
pub(crate) fn all() -> Vec<Object> {
    let read = File::open(c"/proc/self/maps").and_then(|file| whole(&file)).zip(memory());
    let Some((text, memory)) = read else { return Vec::new() };
    let lines = text.split(|&byte| byte == b'\n').filter_map(Mapping::parse);
    let mappings: Vec<Mapping<'_>> =
        lines.filter(|mapping| mapping.has_file() || mapping.is_code()).collect();
    let first = mappings.iter().filter(|mapping| mapping.begins_file());
    let mut objects: Vec<Object> =
        first.filter_map(|mapping| Object::read(mapping, &mappings, &memory)).collect();
    // SAFETY: getauxval only reads.
    let own_headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    objects.sort_by_key(|object| !object.segments.iter().any(|segment| segment.contains(&own_headers)));
    objects
}

/// The memory of this process, as a file.
pub(crate) fn memory() -> Option<File> {
    File::open(c"/proc/self/mem")
}

/// Copies what is at `addresses`. `None` if not all of it can be read.
pub(crate) fn copy(memory: &File, addresses: &Range<usize>) -> Option<Vec<u8>> {
    /// More bytes than headers or tables have.
    const MOST: usize = 1 << 30;
    let length = addresses.len();
    if length > MOST {
        return None;
    }
    let mut bytes = vec![0; length];
    (memory.read_at(&mut bytes, addresses.start as u64)? == length).then_some(bytes)
}

/// The text of a file of /proc.
fn whole(file: &File) -> Option<Vec<u8>> {
    let (mut text, mut length) = (vec![0; 64 << 10], 0);
    loop {
        match file.read_at(&mut text[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
        if length == text.len() {
            text.resize(2 * length, 0);
        }
    }
    text.truncate(length);
    Some(text)
}

impl<'a> Mapping<'a> {
    /// For example: `7f01a000-7f02b000 r-xp 0001a000 08:01 1234   /usr/lib/libm.so.6`.
    fn parse(line: &'a [u8]) -> Option<Mapping<'a>> {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let hex = |word: &[u8]| usize::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok();
        let mut ends = words.next()?.split(|&byte| byte == b'-');
        let addresses = hex(ends.next()?)?..hex(ends.next()?)?;
        let (rights, offset) = (words.next()?, hex(words.next()?)?);
        let file = [words.next()?, words.next()?];
        Some(Mapping { addresses, rights, offset, file, path: words.next().unwrap_or_default().trim_ascii() })
    }

    fn has_file(&self) -> bool {
        self.file[1] != b"0" || self.path == b"[vdso]"
    }

    fn is_code(&self) -> bool {
        self.rights.get(2) == Some(&b'x')
    }

    fn begins_file(&self) -> bool {
        self.has_file() && self.offset == 0 && self.rights.first() == Some(&b'r')
    }
}

impl Object {
    /// The object whose file is mapped from `first` on, if it is one.
    fn read(first: &Mapping<'_>, mappings: &[Mapping<'_>], memory: &File) -> Option<Object> {
        const HEADER: usize = size_of::<libc::Elf64_Ehdr>();
        const SEGMENT: usize = size_of::<libc::Elf64_Phdr>();
        let start = first.addresses.start;
        let bytes = copy(memory, &(start..start + HEADER))?;
        // SAFETY: the bytes are as many as the struct has, which consists of integers.
        let header = unsafe { bytes.as_ptr().cast::<libc::Elf64_Ehdr>().read_unaligned() };
        let ends = header.e_phoff.checked_add(u64::from(header.e_phnum) * SEGMENT as u64)?;
        let is_elf = header.e_ident.starts_with(b"\x7fELF\x02") && usize::from(header.e_phentsize) == SEGMENT;
        if !is_elf || ends > first.addresses.len() as u64 {
            return None;
        }
        let headers = start..start + ends as usize;
        let bytes = copy(memory, &headers)?;
        let segments = bytes.get(header.e_phoff as usize..)?.chunks_exact(SEGMENT);
        // SAFETY: as above.
        let segments =
            segments.map(|bytes| unsafe { bytes.as_ptr().cast::<libc::Elf64_Phdr>().read_unaligned() });
        let segments: Vec<libc::Elf64_Phdr> = segments.collect();

        let page = |address: usize| address & !(PAGE - 1);
        let of_type = |kind| segments.iter().filter(move |segment| segment.p_type == kind);
        let lowest = of_type(libc::PT_LOAD).find(|segment| page(segment.p_offset as usize) == 0)?;
        let base = start.wrapping_sub(page(lowest.p_vaddr as usize));
        let place = |segment: &libc::Elf64_Phdr| {
            let start = base.wrapping_add(segment.p_vaddr as usize);
            start..start.saturating_add(segment.p_memsz as usize)
        };
        let code = of_type(libc::PT_LOAD).filter(|segment| segment.p_flags & libc::PF_X != 0);
        let code: Vec<Code> = code
            .map(|segment| Code {
                addresses: page(place(segment).start)..page(place(segment).end.saturating_add(PAGE - 1)),
                file_offset: page(segment.p_offset as usize),
            })
            .collect();
        let is_mapped = |code: &Code| {
            // Some programs copy their code to large pages, which have no file.
            let has = |mapping: &&Mapping<'_>| mapping.addresses.contains(&code.addresses.start);
            let mapping = mappings.iter().find(has);
            mapping.is_some_and(|found| found.is_code() && (found.file == first.file || !found.has_file()))
        };
        if code.is_empty() || !code.iter().all(is_mapped) {
            return None;
        }
        let notes = of_type(libc::PT_NOTE).filter_map(|segment| {
            let place = place(segment);
            Some((place.start, copy(memory, &place)?))
        });
        let notes: Vec<(usize, Vec<u8>)> = notes.collect();
        Some(Object {
            path: PathBuf::from(OsStr::from_bytes(first.path)),
            code,
            segments: of_type(libc::PT_LOAD).map(place).collect(),
            unwind_index: of_type(libc::PT_GNU_EH_FRAME).map(place).next(),
            build_id: notes.iter().find_map(|(_, bytes)| build_id(bytes)).unwrap_or_default(),
            marks: std::iter::once((start, bytes)).chain(notes).collect(),
        })
    }

    /// Whether it is still, or again, at its place.
    pub(crate) fn is_loaded(&self, memory: &File) -> bool {
        self.marks.iter().all(|(start, bytes)| {
            copy(memory, &(*start..start + bytes.len())).is_some_and(|now| now == *bytes)
        })
    }

    /// Whether the address is in its code.
    pub(crate) fn has_code(&self, address: usize) -> bool {
        self.code.iter().any(|code| code.addresses.contains(&address))
    }
}

/// The build id among notes: each is a header of three words (length of the name, length of the content,
/// type), the name and the content, both padded to four bytes.
fn build_id(mut notes: &[u8]) -> Option<String> {
    const BUILD_ID: u32 = 3;
    loop {
        let word = |n: usize| Some(u32::from_ne_bytes(*notes.get(n * 4..)?.first_chunk()?));
        let (name, content, kind) = (word(0)? as usize, word(1)? as usize, word(2)?);
        let start = 12 + name.next_multiple_of(4);
        if kind == BUILD_ID && notes.get(12..12 + name)? == b"GNU\0" {
            let id = notes.get(start..start + content)?;
            return Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(start + content.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
