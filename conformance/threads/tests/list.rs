include!(concat!(env!("OUT_DIR"), "/list.rs"));
