include!(concat!(env!("OUT_DIR"), "/golang.rs"));
