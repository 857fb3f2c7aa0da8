include!(concat!(env!("OUT_DIR"), "/zero.rs"));
