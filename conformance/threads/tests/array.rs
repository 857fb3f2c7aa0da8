include!(concat!(env!("OUT_DIR"), "/array.rs"));
