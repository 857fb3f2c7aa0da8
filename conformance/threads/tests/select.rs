include!(concat!(env!("OUT_DIR"), "/select.rs"));
