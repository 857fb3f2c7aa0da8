include!(concat!(env!("OUT_DIR"), "/ready.rs"));
