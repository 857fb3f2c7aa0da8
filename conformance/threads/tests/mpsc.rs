include!(concat!(env!("OUT_DIR"), "/mpsc.rs"));
