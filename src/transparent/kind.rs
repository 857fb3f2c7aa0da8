//! What a descriptor is: it decides how to make a call without blocking.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::descriptor::Descriptor;
use crate::sys::syscall::syscall6;

/// What a descriptor is, as far as it decides how to try without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Unknown,
    /// `recv` and `send` take MSG_DONTWAIT.
    Socket,
    /// A socket whose reads return all that is there.
    StreamSocket,
    /// A pipe, or what else takes RWF_NOWAIT.
    Stream,
    /// epoll can wait for it: an eventfd, a device.
    Pollable,
    /// A terminal: whether its reads wait is one of its settings.
    Terminal,
    /// It is always ready: a regular file, a directory.
    File,
}

impl Kind {
    pub(super) fn from_u8(value: u8) -> Kind {
        match value {
            1 => Kind::Socket,
            2 => Kind::StreamSocket,
            3 => Kind::Stream,
            4 => Kind::Pollable,
            5 => Kind::Terminal,
            6 => Kind::File,
            _ => Kind::Unknown,
        }
    }

    /// The kind of a descriptor, by a hint that was right not long ago, or by asking the kernel.
    #[inline]
    pub(super) fn of(fd: c_int) -> Kind {
        match Descriptor::existing(fd).map(Descriptor::kind) {
            None | Some(Kind::Unknown) => Kind::ask(fd),
            Some(known) => known,
        }
    }

    /// Asks the kernel.
    #[cold]
    pub(super) fn ask(fd: c_int) -> Kind {
        let mut status = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: fstat writes a stat.
        let result =
            unsafe { syscall6(libc::SYS_fstat, fd as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0) };
        if result < 0 {
            return Kind::Unknown;
        }
        // SAFETY: written, or zeros.
        let kind = match unsafe { status.assume_init() }.st_mode & libc::S_IFMT {
            libc::S_IFSOCK if socket_option(fd, libc::SO_TYPE) == libc::SOCK_STREAM => Kind::StreamSocket,
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFIFO => Kind::Stream,
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK | libc::S_IFLNK => Kind::File,
            libc::S_IFCHR if terminal_settings(fd).is_some() => Kind::Terminal,
            _ => Kind::Pollable,
        };
        if let Some(descriptor) = Descriptor::of(fd) {
            descriptor.set_kind(kind);
        }
        kind
    }
}

/// An option of a socket that is an integer; -1 if it has none.
pub(super) fn socket_option(fd: c_int, name: c_int) -> c_int {
    let (mut value, mut size) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes an int.
    let result = unsafe {
        let (at, size, level) = (&raw mut value as usize, &raw mut size as usize, libc::SOL_SOCKET as usize);
        syscall6(libc::SYS_getsockopt, fd as usize, level, name as usize, at, size, 0)
    };
    if result == 0 { value } else { -1 }
}

/// The kernel's `struct termios`, which is not libc's.
#[repr(C)]
#[derive(Default)]
pub(super) struct TerminalSettings {
    flags: [u32; 3],
    local_flags: u32,
    line: u8,
    control: [u8; 19],
}

impl TerminalSettings {
    /// Whether reads return although there is no input.
    pub(super) fn reads_nothing(&self) -> bool {
        self.local_flags & libc::ICANON == 0 && self.control[libc::VMIN] == 0
    }
}

/// The settings of a terminal; `None` if the descriptor is none.
pub(super) fn terminal_settings(fd: c_int) -> Option<TerminalSettings> {
    let mut settings = TerminalSettings::default();
    let at = &raw mut settings as usize;
    // SAFETY: the kernel writes the struct.
    let result = unsafe { syscall6(libc::SYS_ioctl, fd as usize, libc::TCGETS as usize, at, 0, 0, 0) };
    (result == 0).then_some(settings)
}
