include!(concat!(env!("OUT_DIR"), "/select_macro.rs"));
