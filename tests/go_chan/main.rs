//! Go's channel programs, by behaviour, in three forms: plain threads, goroutines, and a thread among goroutines.

mod goroutines;
mod mixed;
mod threads;
