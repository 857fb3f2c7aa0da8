include!(concat!(env!("OUT_DIR"), "/tick.rs"));
