//! What a descriptor is: it decides how to make a call without blocking.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::record::Descriptor;
use crate::sys::syscall::syscall6;

/// What a descriptor is, as far as it decides how to try without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::transparent) enum Kind {
    Unknown,
    /// `recv` and `send` take MSG_DONTWAIT.
    Socket,
    /// A socket of a stream, which is waited for so often that `trust.rs` keeps what is known of it.
    StreamSocket,
    /// A TCP connection: as `StreamSocket`, and its reads return all that is there.
    Tcp,
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
    pub(in crate::transparent) fn from_u8(value: u8) -> Kind {
        match value {
            1 => Kind::Socket,
            2 => Kind::StreamSocket,
            3 => Kind::Tcp,
            4 => Kind::Stream,
            5 => Kind::Pollable,
            6 => Kind::Terminal,
            7 => Kind::File,
            _ => Kind::Unknown,
        }
    }

    /// The kind of a descriptor, by a hint that was right not long ago, or by asking the kernel.
    #[inline]
    pub(in crate::transparent) fn of(fd: c_int) -> Kind {
        match Descriptor::existing(fd).map(Descriptor::kind) {
            None | Some(Kind::Unknown) => Kind::ask(fd),
            Some(known) => known,
        }
    }

    /// Asks the kernel, and notes the answer.
    #[cold]
    pub(in crate::transparent) fn ask(fd: c_int) -> Kind {
        let descriptor = Descriptor::of(fd);
        let generation = descriptor.map(|descriptor| descriptor.known.facts().generation());
        let kind = Kind::look(fd);
        if let (Some(descriptor), Some(generation)) = (descriptor, generation) {
            descriptor.known.note_kind(generation, kind as u8);
        }
        kind
    }

    /// Asks the kernel. Safe in a signal handler.
    pub(in crate::transparent) fn look(fd: c_int) -> Kind {
        let mut status = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: fstat writes a stat.
        let result =
            unsafe { syscall6(libc::SYS_fstat, fd as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0) };
        if result < 0 {
            return Kind::Unknown;
        }
        // SAFETY: written, or zeros.
        match unsafe { status.assume_init() }.st_mode & libc::S_IFMT {
            libc::S_IFSOCK if socket_option(fd, libc::SO_TYPE) != libc::SOCK_STREAM => Kind::Socket,
            libc::S_IFSOCK if is_tcp(fd) => Kind::Tcp,
            libc::S_IFSOCK => Kind::StreamSocket,
            libc::S_IFIFO => Kind::Stream,
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK | libc::S_IFLNK => Kind::File,
            libc::S_IFCHR if terminal_settings(fd).is_some() => Kind::Terminal,
            _ => Kind::Pollable,
        }
    }

    pub(in crate::transparent) fn is_socket(self) -> bool {
        matches!(self, Kind::Socket | Kind::StreamSocket | Kind::Tcp)
    }

    /// Whether `trust.rs` keeps what is known of it.
    #[inline]
    pub(in crate::transparent) fn is_trusted(self) -> bool {
        matches!(self, Kind::StreamSocket | Kind::Tcp)
    }
}

/// Whether a socket is of an internet domain.
pub(in crate::transparent) fn is_internet(fd: c_int) -> bool {
    matches!(socket_option(fd, libc::SO_DOMAIN), libc::AF_INET | libc::AF_INET6)
}

fn is_tcp(fd: c_int) -> bool {
    is_internet(fd) && socket_option(fd, libc::SO_PROTOCOL) == libc::IPPROTO_TCP
}

/// An option of a socket that is an integer; -1 if it has none.
pub(in crate::transparent) fn socket_option(fd: c_int, name: c_int) -> c_int {
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
pub(in crate::transparent) struct TerminalSettings {
    flags: [u32; 3],
    local_flags: u32,
    line: u8,
    control: [u8; 19],
}

impl TerminalSettings {
    /// Whether reads return although there is no input.
    pub(in crate::transparent) fn reads_nothing(&self) -> bool {
        self.local_flags & libc::ICANON == 0 && self.control[libc::VMIN] == 0
    }
}

/// The settings of a terminal; `None` if the descriptor is none.
pub(in crate::transparent) fn terminal_settings(fd: c_int) -> Option<TerminalSettings> {
    let mut settings = TerminalSettings::default();
    let at = &raw mut settings as usize;
    // SAFETY: the kernel writes the struct.
    let result = unsafe { syscall6(libc::SYS_ioctl, fd as usize, libc::TCGETS as usize, at, 0, 0, 0) };
    (result == 0).then_some(settings)
}
