include!(concat!(env!("OUT_DIR"), "/never.rs"));
