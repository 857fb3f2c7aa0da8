include!(concat!(env!("OUT_DIR"), "/iter.rs"));
