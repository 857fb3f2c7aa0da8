//! What only an inside view can test: who is queued, which bits are left. The behaviour that users see is
//! tested in `tests/sync/`.

mod condvar;
mod group;
mod holder;
mod mutex;
mod rwlock;
mod semaphore;
mod singleflight;
mod wait_group;
mod waitq;
