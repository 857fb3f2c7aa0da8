//! pprof's format: the messages of `profile.proto`, compressed with gzip.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::time::UNIX_EPOCH;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::data::Profile;
use super::symbols::{Frame, Part, Shown, Symbols};
use crate::sys::objects;

/// The messages. Fields that gort does not use are left out.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(super) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(super) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(super) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(super) comment: Vec<i64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) kind: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) value: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub(super) memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub(super) file_offset: u64,
        #[prost(int64, tag = "5")]
        pub(super) filename: i64,
        #[prost(int64, tag = "6")]
        pub(super) build_id: i64,
        #[prost(bool, tag = "7")]
        pub(super) has_functions: bool,
        #[prost(bool, tag = "8")]
        pub(super) has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub(super) has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub(super) has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(super) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "3")]
        pub(super) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
    }
}

impl Profile {
    /// Writes the profile as `go tool pprof` reads it: a protocol buffer, compressed with gzip. Looks up the
    /// names of functions, which takes most of the time.
    ///
    /// ```
    /// let mut bytes = Vec::new();
    /// gort::profile::goroutine().write_to(&mut bytes)?;
    /// assert!(bytes.starts_with(&[0x1f, 0x8b])); // gzip
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the writer fails.
    pub fn write_to(&self, writer: &mut impl Write) -> io::Result<()> {
        let mut builder = Builder::new();
        let types = self.kind.types();
        for shown in self.shown(&mut Symbols::default()) {
            builder.sample(&shown, types.len());
        }
        builder.profile.sample_type = types.iter().map(|&of| builder.strings.value_type(of)).collect();
        builder.profile.period_type = Some(builder.strings.value_type(self.kind.period_type()));
        builder.profile.period = self.period as i64;
        builder.profile.comment = self.comments.iter().map(|line| builder.strings.number(line)).collect();
        builder.profile.time_nanos =
            self.time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
        builder.profile.duration_nanos = self.duration.as_nanos() as i64;
        let mut compressed = GzEncoder::new(writer, Compression::fast());
        compressed.write_all(&builder.finish().encode_to_vec())?;
        compressed.finish()?.flush()
    }
}

/// The strings, each of which is there once. String 0 is empty.
struct Strings {
    numbers: HashMap<Box<str>, i64>,
    all: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.into(), number);
        number
    }

    fn value_type(&mut self, (kind, unit): (&str, &str)) -> proto::ValueType {
        proto::ValueType { kind: self.number(kind), unit: self.number(unit) }
    }
}

struct Builder {
    profile: proto::Profile,
    strings: Strings,
    /// By name and address.
    locations: HashMap<(usize, i64, Range<usize>), u64>,
    /// By function and file.
    functions: HashMap<(i64, i64), u64>,
    /// The index of the mapping of each segment of code.
    code: Vec<(Range<usize>, u64)>,
}

impl Builder {
    fn new() -> Builder {
        let strings = Strings { numbers: HashMap::from([("".into(), 0)]), all: vec![String::new()] };
        let mut builder = Builder {
            profile: proto::Profile::default(),
            strings,
            locations: HashMap::new(),
            functions: HashMap::new(),
            code: Vec::new(),
        };
        builder.add_mappings();
        builder
    }

    fn add_mappings(&mut self) {
        for object in objects::all() {
            let (filename, build_id) =
                (self.strings.number(&object.path.to_string_lossy()), self.strings.number(&object.build_id));
            for code in object.code {
                let id = self.profile.mapping.len() as u64 + 1;
                self.profile.mapping.push(proto::Mapping {
                    id,
                    memory_start: code.addresses.start as u64,
                    memory_limit: code.addresses.end as u64,
                    file_offset: code.file_offset as u64,
                    filename,
                    build_id,
                    has_functions: true,
                    has_filenames: true,
                    has_line_numbers: true,
                    has_inline_frames: true,
                });
                self.code.push((code.addresses, id));
            }
        }
    }

    fn sample(&mut self, shown: &Shown<'_>, values: usize) {
        let location_id = shown.parts.iter().map(|part| self.location(part)).collect();
        let strings = &mut self.strings;
        let labels = shown.labels.iter();
        let labels = labels
            .map(|(key, value)| proto::Label { key: strings.number(key), value: strings.number(value) });
        let label = labels.collect();
        self.profile.sample.push(proto::Sample {
            location_id,
            value: shown.values[..values].to_vec(),
            label,
        });
    }

    fn location(&mut self, part: &Part) -> u64 {
        // What has no address is told apart by its name.
        let name = if part.address == 0 { self.strings.number(&part.frames[0].function) } else { 0 };
        let key = (part.address, name, part.shown.clone());
        if let Some(&id) = self.locations.get(&key) {
            return id;
        }
        let id = self.locations.len() as u64 + 1;
        let mapping = self.code.iter().find(|(addresses, _)| addresses.contains(&part.address));
        let mapping_id = mapping.map_or(0, |&(_, id)| id);
        let line = part.frames[part.shown.clone()].iter().map(|frame| self.line(frame)).collect();
        self.profile.location.push(proto::Location { id, mapping_id, address: part.address as u64, line });
        self.locations.insert(key, id);
        id
    }

    fn line(&mut self, frame: &Frame) -> proto::Line {
        let (name, filename) = (self.strings.number(&frame.function), self.strings.number(&frame.file));
        let next = self.functions.len() as u64 + 1;
        let function_id = *self.functions.entry((name, filename)).or_insert(next);
        if function_id == next {
            // pprof cuts names at `<` that are the same as their symbols.
            let symbol = if frame.symbol == frame.function { "" } else { &frame.symbol };
            let system_name = self.strings.number(symbol);
            self.profile.function.push(proto::Function { id: next, name, system_name, filename });
        }
        proto::Line { function_id, line: frame.line.into() }
    }

    fn finish(mut self) -> proto::Profile {
        self.profile.string_table = self.strings.all;
        self.profile
    }
}
