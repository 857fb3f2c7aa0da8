include!(concat!(env!("OUT_DIR"), "/same_channel.rs"));
