include!(concat!(env!("OUT_DIR"), "/after.rs"));
