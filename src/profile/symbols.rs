//! Names for the addresses of stacks, and which frames of the runtime are shown.
//!
//! A CPU profile shows all frames: time that the runtime takes is time, too. In other profiles the runtime's
//! own frames are left out as in dumps: those that started the goroutine, and those that stopped it. Of
//! gort's functions at the inner end only the one that the program called stays.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::rc::Rc;

use super::data::{Kind, Labels, Profile, Stack};

/// A function and a place in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    pub(super) function: String,
    /// As the linker knows it.
    pub(super) symbol: String,
    pub(super) file: String,
    pub(super) line: u32,
}

/// The frames at one address, innermost first: all functions that were inlined there.
pub(super) type Inlined = Rc<[Frame]>;

/// A part of a stack: an address, and which of the frames at it are shown.
pub(super) struct Part {
    pub(super) address: usize,
    pub(super) frames: Inlined,
    pub(super) shown: Range<usize>,
}

/// Frames at one address are one object.
impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        Rc::ptr_eq(&self.frames, &other.frames) && self.shown == other.shown
    }
}

impl Eq for Part {}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Rc::as_ptr(&self.frames).cast::<()>(), &self.shown).hash(state);
    }
}

/// Parts of the names of functions that call a goroutine's function: these frames and all outer ones are left
/// out.
const STARTED_BY: [&str; 3] =
    ["gort::goroutine::join::ResultPlace", "gort::sched::run::spawn::", "gort::goroutine::run::"];

/// Functions by address, and places without one by name.
#[derive(Default)]
pub(super) struct Symbols {
    functions: HashMap<usize, Inlined>,
    places: HashMap<&'static str, Inlined>,
}

/// Samples whose shown frames and labels are the same.
pub(super) struct Shown<'a> {
    pub(super) parts: Vec<Part>,
    pub(super) labels: &'a Labels,
    pub(super) values: [i64; 2],
}

impl Profile {
    /// What is shown of the samples, those with the highest number first.
    pub(super) fn shown(&self, symbols: &mut Symbols) -> Vec<Shown<'_>> {
        let mut all: HashMap<(Vec<Part>, &Labels), [i64; 2]> = HashMap::new();
        for ((stack, labels), values) in &self.samples {
            let sum = all.entry((symbols.parts(self.kind, stack), labels)).or_default();
            *sum = [sum[0] + values[0], sum[1] + values[1]];
        }
        let mut all: Vec<Shown<'_>> =
            all.into_iter().map(|((parts, labels), values)| Shown { parts, labels, values }).collect();
        let main = self.kind.types().len() - 1;
        let order = |shown: &Shown<'_>| {
            let addresses: Vec<usize> = shown.parts.iter().map(|part| part.address).collect();
            (Reverse(shown.values[main]), addresses, shown.labels.clone())
        };
        all.sort_by_cached_key(order);
        all
    }
}

impl Symbols {
    /// The parts of a stack that are shown, innermost first.
    fn parts(&mut self, kind: Kind, stack: &Stack) -> Vec<Part> {
        let mut parts: Vec<Part> = match stack {
            Stack::Addresses(addresses) => addresses.iter().map(|&address| self.part(address)).collect(),
            Stack::Named(name) => {
                let frame = || Rc::from([Frame { function: (*name).into(), ..Frame::default() }]);
                let frames = Rc::clone(self.places.entry(name).or_insert_with(frame));
                vec![Part { address: 0, frames, shown: 0..1 }]
            }
        };
        if kind != Kind::Cpu && matches!(stack, Stack::Addresses(_)) {
            hide(&mut parts);
        }
        parts
    }

    fn part(&mut self, address: usize) -> Part {
        let frames = Rc::clone(self.functions.entry(address).or_insert_with(|| look_up(address)));
        Part { address, shown: 0..frames.len(), frames }
    }
}

/// Hides the runtime's frames. If there are no others, all stay.
fn hide(parts: &mut Vec<Part>) {
    let names = || parts.iter().flat_map(|part| part.frames.iter().map(|frame| frame.function.as_str()));
    let all = names().count();
    let end = names().position(|name| STARTED_BY.iter().any(|by| name.contains(by))).unwrap_or(all);
    let inner = names().take(end).take_while(|name| is_of_runtime(name)).count();
    if inner == end {
        return;
    }
    let mut shown = inner.saturating_sub(1)..end;
    parts.retain_mut(|part| {
        let count = part.frames.len();
        part.shown = shown.start.min(count)..shown.end.min(count);
        shown = shown.start.saturating_sub(count)..shown.end.saturating_sub(count);
        !part.shown.is_empty()
    });
}

fn is_of_runtime(name: &str) -> bool {
    ["gort::", "<gort::", "gort_"].iter().any(|start| name.starts_with(start)) || name.starts_with("_Unwind_")
}

fn look_up(address: usize) -> Inlined {
    let mut frames = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        let (function, raw) = match symbol.name() {
            Some(name) => (format!("{name:#}"), name.as_str().unwrap_or_default().to_owned()),
            None => (format!("{address:#x}"), String::new()),
        };
        let file = symbol.filename().map_or(String::new(), |file| file.display().to_string());
        frames.push(Frame { function, symbol: raw, file, line: symbol.lineno().unwrap_or(0) });
    });
    if frames.is_empty() {
        frames.push(Frame { function: format!("{address:#x}"), ..Frame::default() });
    }
    frames.into()
}
