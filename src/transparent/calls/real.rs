//! libc's own functions, which ours hide; and the macro that defines ours.

use std::ffi::CStr;
use std::marker::PhantomData;

use crate::base::throw;
use crate::sched::block::hidden_function::Hidden;

/// A function of libc, of type `F`.
pub(in crate::transparent) struct Real<F> {
    pub(in crate::transparent) hidden: Hidden,
    name: &'static str,
    is: PhantomData<F>,
}

impl<F: Copy> Real<F> {
    pub(in crate::transparent) const fn new(name: &'static CStr, text: &'static str) -> Real<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        Real { hidden: Hidden::new(name), name: text, is: PhantomData }
    }

    #[inline]
    pub(in crate::transparent) fn get(&self) -> F {
        let address = self.hidden.address();
        if address == 0 {
            throw("transparent", format_args!("libc has no function {}", self.name));
        }
        // SAFETY: libc's function of that name, whose type the macro `define` was given.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

/// Ours and libc's function of a name.
pub(in crate::transparent) struct Pair {
    pub(in crate::transparent) name: &'static CStr,
    pub(in crate::transparent) ours: fn() -> usize,
    pub(in crate::transparent) libcs: &'static Hidden,
}

/// Defines functions of libc. The body is for a goroutine `$g`, which waits as goroutines do; it returns what
/// the system call would, or an error number. All other callers get libc's function, which is in `real`.
/// `$after` looks at what the function returned to any caller.
macro_rules! define {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty,
        |$g:ident| $body:expr $(, after |$returned:ident| $after:expr)?;)*) => {
        #[allow(non_upper_case_globals, reason = "they have the names of the functions")]
        pub(in crate::transparent) mod real {
            #[allow(unused_imports, reason = "not all types are needed in all modules")]
            use super::*;
            $(pub(in crate::transparent) static $name:
                $crate::transparent::calls::real::Real<unsafe extern "C" fn($($type),*) -> $result> =
                $crate::transparent::calls::real::Real::new(
                    match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => unreachable!(),
                    },
                    stringify!($name),
                );)*
        }

        $(
            #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                let result = match $crate::transparent::who::caller::caller() {
                    None => {
                        let libcs = real::$name.get();
                        // SAFETY: the caller vouches for the arguments.
                        unsafe { libcs($($argument),*) }
                    }
                    Some($g) => $crate::transparent::who::caller::report($body),
                };
                $(if $crate::transparent::who::enabled::is_on() {
                    let $returned = result;
                    $after;
                })?
                result
            }
        )*

        /// The functions of this file.
        pub(in crate::transparent) static PAIRS: &[$crate::transparent::calls::real::Pair] =
            &[$($crate::transparent::calls::real::Pair {
            name: match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
            ours: || $name as *const () as usize,
            libcs: &real::$name.hidden,
        }),*];
    };
}

pub(in crate::transparent) use define;
