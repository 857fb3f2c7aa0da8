//! Finds out where glibc keeps the fields that a TLS block needs.
//!
//! None of the offsets is a constant in this file. They come from three sources: symbols that the dynamic
//! loader and libc export for themselves and for debuggers (`_dl_allocate_tls`, `_thread_db_*`); the program
//! headers of the loaded modules; and a probe thread, which searches its own descriptor for the known address
//! and size of its stack, and asks the kernel for the addresses that libc gave it.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::loaded;
use crate::arch;
use crate::sys::sanitizer::{self, Fiber, WordsOfThread};
use crate::sys::thread;

/// What gort must know to make a block. Offsets are relative to the thread pointer; negative ones lie in
/// static TLS.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Bytes of `struct pthread`, at and above the thread pointer, and of the [`Fiber`] behind it, if there
    /// is one.
    pub(crate) above: usize,
    /// What the sanitizers know about the goroutine, if one is in this program.
    pub(super) fiber: Option<usize>,
    /// Bytes of static TLS, below the thread pointer: those of the modules loaded at start-up, and the spare
    /// room.
    pub(crate) below: usize,
    /// Bytes of static TLS without the spare room.
    pub(super) used: usize,
    /// Alignment of the thread pointer.
    pub(crate) align: usize,
    pub(super) tid: usize,
    /// A word that says that the thread lives, and its value for one that does. Since glibc 2.42; before, the
    /// id is that word.
    pub(super) alive: Option<(usize, u32)>,
    pub(super) list: usize,
    pub(super) stack_address: usize,
    pub(super) stack_size: usize,
    pub(super) robust_head: usize,
    pub(super) robust_futex_offset: isize,
    pub(super) resolver_state: usize,
    pub(super) resolver_pointer: isize,
    pub(super) errno: isize,
    pub(super) h_errno: isize,
    pub(super) rseq: Option<isize>,
    pub(super) key_data: KeyData,
    pub(super) modules: Vec<Module>,
    /// Whether all modules with thread-locals have them in static TLS, as of `generation`.
    pub(super) all_static: bool,
    /// The generation of the loader's module table at start-up.
    pub(super) generation: usize,
    pub(super) functions: Functions,
}

/// One loaded module's part of static TLS.
#[derive(Debug, Clone)]
pub(super) struct Module {
    /// The module's part starts at the thread pointer minus this.
    pub(super) offset: usize,
    pub(super) image: usize,
    pub(super) image_size: usize,
    pub(super) size: usize,
    /// Whether this is libc, whose variables stay with a block for its next goroutine.
    pub(super) is_libc: bool,
}

/// Where the values of `pthread_setspecific` are: a first block of values inside the descriptor, and the
/// table of all keys with their destructors.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyData {
    /// The array of pointers to blocks of values.
    pub(super) specific: usize,
    /// The first block of values, which every thread has.
    pub(super) first_block: usize,
    pub(super) entry_size: usize,
    pub(super) entry_sequence: usize,
    pub(super) entry_value: usize,
    pub(super) keys_per_block: usize,
    pub(super) blocks: usize,
    /// The byte that says whether a value was ever set. Without it, every block of values must be searched.
    pub(super) used: Option<usize>,
    pub(super) key_table: usize,
    pub(super) key_size: usize,
    /// A key's count of creations and deletions. A value with an older count belongs to a deleted key.
    pub(super) key_sequence: usize,
    pub(super) key_destructor: usize,
    /// A key whose value is the OS thread's and not the goroutine's (`sys/sanitizer.rs`).
    pub(super) of_thread: Option<usize>,
}

/// Functions of the loader and libc, found by name at run time because they are not part of the link-time
/// interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    pub(super) allocate: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pub(super) deallocate: unsafe extern "C" fn(*mut c_void, bool),
    pub(super) call_destructors: unsafe extern "C" fn(),
    pub(super) ctype_init: unsafe extern "C" fn(),
}

impl Layout {
    /// The number of pthread keys in use, and the sequence number of the key that is created next (the first
    /// free one). `None` if no key is free.
    pub(super) fn next_key(&self) -> Option<(usize, *const AtomicUsize)> {
        let keys = &self.key_data;
        let sequence =
            |key: usize| (keys.key_table + key * keys.key_size + keys.key_sequence) as *const AtomicUsize;
        // An odd sequence number means that the key is in use.
        // SAFETY: libc's table has an entry for each possible key.
        let in_use = |key: usize| unsafe { (*sequence(key)).load(Ordering::Relaxed) } % 2 == 1;
        let all = keys.blocks * keys.keys_per_block;
        let next = (0..all).find(|&key| !in_use(key))?;
        Some(((0..all).filter(|&key| in_use(key)).count(), sequence(next)))
    }
}

/// Finds the whole layout. The error says what is missing.
pub(super) fn find() -> Result<Layout, String> {
    arch::thread_pointer_init();
    sanitizer::init();
    loaded::init();
    let functions = Functions {
        // SAFETY: this is the type of the function with this name in glibc.
        allocate: unsafe {
            std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> *mut c_void>(symbol(
                c"_dl_allocate_tls",
            )?)
        },
        // SAFETY: as for `allocate`.
        deallocate: unsafe {
            std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void, bool)>(symbol(
                c"_dl_deallocate_tls",
            )?)
        },
        // SAFETY: as for `allocate`.
        call_destructors: unsafe {
            std::mem::transmute::<usize, unsafe extern "C" fn()>(symbol(c"__call_tls_dtors")?)
        },
        // SAFETY: as for `allocate`.
        ctype_init: unsafe { std::mem::transmute::<usize, unsafe extern "C" fn()>(symbol(c"__ctype_init")?) },
    };
    let (static_size, static_align) = static_info()?;
    let rseq = rseq_offset();
    let size_of_pthread = debugger_size(c"_thread_db_sizeof_pthread")?;
    let align = static_align.max(64);
    let above = rseq.map_or(0, |(offset, size)| offset + size as isize).max(size_of_pthread as isize);
    let mut above = (above as usize).next_multiple_of(align);
    let fiber = sanitizer::is_active().then_some(above);
    if fiber.is_some() {
        above = (above + size_of::<Fiber>()).next_multiple_of(align);
    }
    let tid = debugger_offset(c"_thread_db_pthread_tid")?;
    let list = debugger_offset(c"_thread_db_pthread_list")?;
    let mut key_data = find_key_data()?;
    let resolver_symbol = symbol(c"__resp")? as isize - arch::thread_pointer() as isize;

    let probed = probe(size_of_pthread, tid, resolver_symbol, &key_data)?;
    key_data.used = probed.keys_used;
    key_data.first_block = probed.first_key_block;
    key_data.of_thread = probed.of_thread.key;
    if !probed.of_thread.offsets.iter().all(|&offset| arch::carry_with_thread_pointer(offset)) {
        return Err("the sanitizer keeps more words in each thread than expected".into());
    }
    let (modules, all_static) = modules(static_size, probed.errno)?;
    // SAFETY: the TCB holds the thread vector, whose first word is the generation.
    let generation = unsafe { **((arch::thread_pointer() + super::block::tcb::DTV) as *const *const usize) };
    let below = modules.iter().map(|m| m.offset).max().unwrap_or(0);
    let used = below.max(rseq.map_or(0, |(offset, _)| (-offset).max(0) as usize)).next_multiple_of(8);
    let below = (used + loaded::SPARE).next_multiple_of(align);
    Ok(Layout {
        above,
        fiber,
        below,
        used,
        align,
        tid,
        alive: probed.alive,
        list,
        stack_address: probed.stack_address,
        stack_size: probed.stack_size,
        robust_head: probed.robust_head,
        robust_futex_offset: probed.robust_futex_offset,
        resolver_state: probed.resolver_state,
        resolver_pointer: resolver_symbol,
        errno: probed.errno,
        h_errno: probed.h_errno,
        rseq: rseq.map(|(offset, _)| offset),
        key_data,
        modules,
        all_static,
        generation,
        functions,
    })
}

fn symbol(name: &CStr) -> Result<usize, String> {
    // SAFETY: the name is a C string; looking up a symbol has no other precondition.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        return Err(format!(
            "the C library does not export `{}` (glibc 2.34 or newer, dynamically linked, is needed)",
            name.to_string_lossy()
        ));
    }
    Ok(address as usize)
}

fn static_info() -> Result<(usize, usize), String> {
    type Info = unsafe extern "C" fn(*mut usize, *mut usize);
    // SAFETY: this is the type of the function of that name in glibc.
    let info: Info = unsafe { std::mem::transmute::<usize, Info>(symbol(c"_dl_get_tls_static_info")?) };
    let (mut size, mut align) = (0, 0);
    // SAFETY: it writes two words.
    unsafe { info(&mut size, &mut align) };
    if !align.is_power_of_two() || align > 4096 || size == 0 {
        return Err(format!("implausible static TLS: size {size}, alignment {align}"));
    }
    Ok((size, align))
}

/// Reads a symbol `_thread_db_sizeof_*`: one 32-bit number.
fn debugger_size(name: &CStr) -> Result<usize, String> {
    // SAFETY: glibc's debugger interface defines these as uint32_t.
    Ok(unsafe { *(symbol(name)? as *const u32) } as usize)
}

/// Reads a symbol `_thread_db_<struct>_<field>`: size in bits, count, offset.
fn debugger_field(name: &CStr) -> Result<[u32; 3], String> {
    // SAFETY: glibc's debugger interface defines these as uint32_t[3].
    Ok(unsafe { *(symbol(name)? as *const [u32; 3]) })
}

fn debugger_offset(name: &CStr) -> Result<usize, String> {
    Ok(debugger_field(name)?[2] as usize)
}

fn find_key_data() -> Result<KeyData, String> {
    let specific = debugger_offset(c"_thread_db_pthread_specific")?;
    // SAFETY: a plain query.
    let max_keys = unsafe { libc::sysconf(libc::_SC_THREAD_KEYS_MAX) };
    let level2 = debugger_field(c"_thread_db_pthread_key_data_level2_data")?;
    let data = KeyData {
        specific,
        first_block: 0,
        blocks: max_keys.max(0) as usize / (level2[1] as usize).max(1),
        used: None,
        entry_size: debugger_size(c"_thread_db_sizeof_pthread_key_data")?,
        entry_sequence: debugger_offset(c"_thread_db_pthread_key_data_seq")?,
        entry_value: debugger_offset(c"_thread_db_pthread_key_data_data")?,
        keys_per_block: level2[1] as usize,
        key_table: symbol(c"__pthread_keys")?,
        key_size: debugger_size(c"_thread_db_sizeof_pthread_key_struct")?,
        key_sequence: debugger_offset(c"_thread_db_pthread_key_struct_seq")?,
        key_destructor: debugger_offset(c"_thread_db_pthread_key_struct_destr")?,
        of_thread: None,
    };
    if data.blocks == 0 || data.keys_per_block == 0 || data.entry_size != 16 || data.key_size != 16 {
        return Err(format!("implausible pthread key tables: {data:?}"));
    }
    Ok(data)
}

/// Offset and size of the restartable-sequences area, if this glibc has one.
fn rseq_offset() -> Option<(isize, usize)> {
    let offset = symbol(c"__rseq_offset").ok()?;
    // SAFETY: glibc defines it as ptrdiff_t. The area's ABI has at least 32 bytes.
    Some((unsafe { *(offset as *const isize) }, 32))
}

/// The modules in static TLS, as the calling thread sees them.
pub(super) fn modules_now() -> Result<Vec<Module>, String> {
    let (static_size, _) = static_info()?;
    // SAFETY: errno has an address in every thread.
    let errno = unsafe { libc::__errno_location() } as isize - arch::thread_pointer() as isize;
    Ok(modules(static_size, errno)?.0)
}

/// The modules in static TLS, and whether these are all modules that have thread-locals.
fn modules(static_size: usize, errno: isize) -> Result<(Vec<Module>, bool), String> {
    struct Found {
        tp: usize,
        static_size: usize,
        errno: isize,
        list: Vec<Module>,
        all_static: bool,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid record, and `data` points to the caller's `Found`.
        let (info, found) = unsafe { (&*info, &mut *data.cast::<Found>()) };
        if info.dlpi_tls_modid == 0 {
            return 0;
        }
        // SAFETY: the headers of a loaded module stay mapped during the call.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let data = info.dlpi_tls_data as usize;
        let is_static = data != 0 && data < found.tp && found.tp - data <= found.static_size;
        found.all_static &= is_static;
        if let Some(tls) = headers.iter().find(|h| h.p_type == libc::PT_TLS)
            && is_static
        {
            let offset = found.tp - data;
            let errno_inside =
                -found.errno as usize <= offset && (-found.errno as usize) + tls.p_memsz as usize > offset;
            found.list.push(Module {
                offset,
                image: (info.dlpi_addr + tls.p_vaddr) as usize,
                image_size: tls.p_filesz as usize,
                size: tls.p_memsz as usize,
                is_libc: found.errno < 0 && errno_inside,
            });
        }
        0
    }
    let mut found =
        Found { tp: arch::thread_pointer(), static_size, errno, list: Vec::new(), all_static: true };
    // SAFETY: the callback matches the type and `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    if !found.list.iter().any(|m| m.is_libc) {
        return Err("libc's thread-local storage was not found".into());
    }
    Ok((found.list, found.all_static))
}

/// What the probe thread found in its own descriptor.
#[derive(Default, Clone)]
struct Probed {
    stack_address: usize,
    stack_size: usize,
    alive: Option<(usize, u32)>,
    robust_head: usize,
    robust_futex_offset: isize,
    resolver_state: usize,
    errno: isize,
    h_errno: isize,
    first_key_block: usize,
    keys_used: Option<usize>,
    of_thread: WordsOfThread,
}

struct ProbeInput {
    h_errno_location: unsafe extern "C" fn() -> *mut c_int,
    key_data: KeyData,
    size_of_pthread: usize,
    static_size: usize,
    /// The offset at which glibc's debugger interface places the thread id.
    tid: usize,
    resolver_symbol: isize,
    stack: usize,
    stack_size: usize,
    result: Result<Probed, String>,
}

/// Runs a thread on a stack of known address and size. The thread checks its thread id, and finds the stack's
/// address and size, the word that says that it lives, the robust list and the resolver state in its own
/// descriptor.
fn probe(
    size_of_pthread: usize,
    tid: usize,
    resolver_symbol: isize,
    key_data: &KeyData,
) -> Result<Probed, String> {
    let (static_size, _) = static_info()?;
    let size = (256 << 10) + static_size.next_multiple_of(4096);
    let mut stack = vec![0u8; size + 4096];
    let base = (stack.as_mut_ptr() as usize).next_multiple_of(4096);
    // SAFETY: the type of the function of that name in glibc.
    let h_errno_location = unsafe {
        std::mem::transmute::<usize, unsafe extern "C" fn() -> *mut i32>(symbol(c"__h_errno_location")?)
    };
    let mut input = ProbeInput {
        h_errno_location,
        key_data: *key_data,
        size_of_pthread,
        static_size,
        tid,
        resolver_symbol,
        stack: base,
        stack_size: size,
        result: Err("the probe thread did not run".into()),
    };
    // SAFETY: the attributes are initialised before use and destroyed after; the stack and the input live
    // until the thread has been joined.
    let code = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstack(&mut attributes, base as *mut c_void, size);
        let mut thread = 0;
        let code =
            libc::pthread_create(&mut thread, &attributes, probe_main, (&raw mut input).cast::<c_void>());
        if code == 0 {
            libc::pthread_join(thread, ptr::null_mut());
        }
        libc::pthread_attr_destroy(&mut attributes);
        code
    };
    if code != 0 {
        return Err(format!("could not start a probe thread: {}", std::io::Error::from_raw_os_error(code)));
    }
    input.result
}

extern "C" fn probe_main(input: *mut c_void) -> *mut c_void {
    // SAFETY: `probe` passes its input and waits for this thread.
    let input = unsafe { &mut *input.cast::<ProbeInput>() };
    input.result = look_at_own_descriptor(input);
    ptr::null_mut()
}

fn look_at_own_descriptor(input: &ProbeInput) -> Result<Probed, String> {
    let tp = arch::thread_pointer();
    // SAFETY: the descriptor of this thread spans that many readable bytes.
    let words = unsafe { std::slice::from_raw_parts(tp as *const usize, input.size_of_pthread / 8) };
    let stack_word = words
        .windows(2)
        .position(|pair| pair[0] == input.stack && pair[1] == input.stack_size)
        .ok_or("the stack's address was not found in the thread descriptor")?;

    let own_tid = thread::tid();
    // The thread id is checked, not searched for: the upper half of an address looks like a thread id near
    // 32,700.
    // SAFETY: the field lies in the descriptor.
    if unsafe { *((tp + input.tid) as *const u32) } != own_tid {
        return Err("the thread id is not where glibc's debugger interface says".into());
    }

    // libc learns from the kernel that a thread has ended: by a word that the kernel clears.
    let alive = thread::word_cleared_at_end()
        .filter(|&word| word > tp && word + 4 <= tp + input.size_of_pthread && word != tp + input.tid)
        // SAFETY: the word lies in the descriptor.
        .map(|word| (word - tp, unsafe { *(word as *const u32) }));

    let head = thread::robust_list();
    if head <= tp || head + 24 > tp + input.size_of_pthread {
        return Err("the robust-mutex list is not in the thread descriptor".into());
    }
    // SAFETY: `struct robust_list_head` is: list, futex_offset, list_op_pending.
    let robust_futex_offset = unsafe { *((head + 8) as *const isize) };

    // SAFETY: `__resp` is a pointer variable in libc's static TLS.
    let resolver_state = unsafe { *((tp as isize + input.resolver_symbol) as *const usize) };
    if resolver_state <= tp || resolver_state >= tp + input.size_of_pthread {
        return Err("the resolver state is not in the thread descriptor".into());
    }
    // SAFETY: errno has an address in every thread.
    let errno = unsafe { libc::__errno_location() } as isize - tp as isize;
    // SAFETY: `h_errno` has an address in every thread.
    let h_errno = unsafe { (input.h_errno_location)() } as isize - tp as isize;

    let keys = &input.key_data;
    // SAFETY: the field lies in the descriptor.
    let first_key_block = unsafe { *((tp + keys.specific) as *const usize) }.wrapping_sub(tp);
    if first_key_block.saturating_add(keys.keys_per_block * keys.entry_size) > input.size_of_pthread {
        return Err("the values of pthread keys are not in the thread descriptor".into());
    }
    let after_key_blocks = keys.specific + keys.blocks * 8;
    let entries = (0..keys.keys_per_block).map(|key| {
        let entry = tp + first_key_block + key * keys.entry_size;
        [entry + keys.entry_sequence, entry + keys.entry_value]
    });
    let of_thread = sanitizer::words_of_thread(tp, input.static_size, entries);
    Ok(Probed {
        stack_address: stack_word * 8,
        stack_size: stack_word * 8 + 8,
        alive,
        robust_head: head - tp,
        robust_futex_offset,
        resolver_state: resolver_state - tp,
        errno,
        h_errno,
        first_key_block,
        keys_used: becomes_true_when_a_key_is_set(tp + after_key_blocks).then_some(after_key_blocks),
        of_thread,
    })
}

/// Whether the byte at `address` is the one in which glibc notes that this thread uses pthread keys.
fn becomes_true_when_a_key_is_set(address: usize) -> bool {
    let byte = address as *const u8;
    let mut key = 0;
    // SAFETY: the byte lies in this thread's descriptor, and only this function uses the key.
    unsafe {
        let before = byte.read_volatile();
        if before != 0 || libc::pthread_key_create(&mut key, None) != 0 {
            return false;
        }
        libc::pthread_setspecific(key, byte.cast());
        let after = byte.read_volatile();
        libc::pthread_setspecific(key, ptr::null());
        libc::pthread_key_delete(key);
        after == 1
    }
}
