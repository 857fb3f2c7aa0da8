//! [`SingleFlight`]: merges concurrent calls with the same key, so that only one of them runs its function.
//!
//! A flight is a [`OnceLock`] in a map. All callers that come while the flight is in the map get the value of
//! the first one. `OnceLock` makes them wait and handles a panic: one of the waiting callers then makes the
//! value. The caller that made the value removes the flight from the map. If the functions of all callers
//! panicked, the last one removes it.
//!
//! The map's lock is a [`Mutex`], not a runtime lock, because hashing and comparing keys is user code. Values
//! are not dropped under it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::mutex::Mutex;
use super::once_lock::OnceLock;

/// Merges calls with the same key that overlap in time, like Go's `singleflight`.
///
/// ```
/// use gort::sync::SingleFlight;
/// let lookups = SingleFlight::new();
/// let (address, shared) = lookups.call("example.org", || "192.0.2.1".to_owned());
/// assert_eq!((&*address, shared), ("192.0.2.1", false));
/// ```
pub struct SingleFlight<K, V> {
    flights: Mutex<HashMap<K, Arc<Flight<V>>>>,
}

struct Flight<V> {
    value: OnceLock<V>,
    /// The number of callers that have joined. Written under the map's lock.
    joined: AtomicUsize,
    /// The number of their functions that have panicked.
    failed: AtomicUsize,
}

/// Counts a function that panics, before the next caller runs its own.
struct Trying<'a>(&'a AtomicUsize);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<K: Hash + Eq + Clone, V: Clone> SingleFlight<K, V> {
    /// A `SingleFlight` without calls.
    #[must_use]
    pub fn new() -> SingleFlight<K, V> {
        SingleFlight { flights: Mutex::new(HashMap::new()) }
    }

    /// Returns the value of `f`, or that of a running call with the same key. The second result says whether
    /// other callers share this value.
    ///
    /// If `f` panics, the panic continues in this caller, and one of the waiting callers runs its own
    /// function. An `f` that calls with its own key waits for itself forever.
    pub fn call(&self, key: K, f: impl FnOnce() -> V) -> (V, bool) {
        let flight = self.join(&key);
        let mut ride = Ride { flights: self, key: &key, flight: &flight, made: false };
        flight.value.get_or_init(|| {
            let trying = Trying(&flight.failed);
            let value = f();
            std::mem::forget(trying);
            ride.made = true;
            value
        });
        drop(ride);
        let value = flight.value.get().expect("made above").clone();
        let (joined, failed) = (&flight.joined, &flight.failed);
        (value, joined.load(Ordering::Relaxed) - failed.load(Ordering::Relaxed) > 1)
    }

    /// Lets the next call with this key run its own function, even if another call is running now.
    pub fn forget(&self, key: &K) {
        let flight = self.flights.lock().remove(key);
        drop(flight);
    }

    fn join(&self, key: &K) -> Arc<Flight<V>> {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(key) {
            flight.joined.fetch_add(1, Ordering::Relaxed);
            return flight.clone();
        }
        let flight = Arc::new(Flight {
            value: OnceLock::new(),
            joined: AtomicUsize::new(1),
            failed: AtomicUsize::new(0),
        });
        flights.insert(key.clone(), flight.clone());
        flight
    }

    #[cfg(test)]
    pub(super) fn joined(&self, key: &K) -> usize {
        self.flights.lock().get(key).map_or(0, |flight| flight.joined.load(Ordering::Relaxed))
    }
}

/// One caller's part in a flight. It ends when there is a value, or when the caller's function panics.
struct Ride<'a, K: Hash + Eq, V> {
    flights: &'a SingleFlight<K, V>,
    key: &'a K,
    flight: &'a Arc<Flight<V>>,
    made: bool,
}

impl<K: Hash + Eq, V> Drop for Ride<'_, K, V> {
    fn drop(&mut self) {
        let another_made_it = !self.made && self.flight.value.get().is_some();
        if another_made_it {
            return;
        }
        let mut flights = self.flights.flights.lock();
        let (joined, failed) = (&self.flight.joined, &self.flight.failed);
        let over = self.made || failed.load(Ordering::Relaxed) == joined.load(Ordering::Relaxed);
        // `forget` may have removed our flight, and the map may have a newer one by now.
        let removed = if over && flights.get(self.key).is_some_and(|f| Arc::ptr_eq(f, self.flight)) {
            flights.remove_entry(self.key)
        } else {
            None
        };
        drop(flights);
        drop(removed);
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Default for SingleFlight<K, V> {
    fn default() -> SingleFlight<K, V> {
        SingleFlight::new()
    }
}

impl<K, V> fmt::Debug for SingleFlight<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flights = self.flights.try_lock().map(|flights| flights.len());
        f.debug_struct("SingleFlight").field("flights", &flights).finish()
    }
}
