include!(concat!(env!("OUT_DIR"), "/thread_locals.rs"));
