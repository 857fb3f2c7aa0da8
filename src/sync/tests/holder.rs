//! Who holds a lock.

use crate::sync::holder::{Holder, StackPage, page_of};

#[test]
fn the_mark_lies_in_the_stack_of_who_made_it() {
    let holder = Holder::new();
    holder.mark();
    let here = 0u8;
    let here = &raw const here as usize;
    assert!(holder.page().is_within(here - 0x4000, here + 0x4000));
    std::thread::scope(|s| {
        s.spawn(|| holder.mark());
    });
    assert!(!holder.page().is_within(here - 0x4000, here + 0x4000), "another thread's stack");
}

#[test]
fn ranges_are_half_open_and_may_cross_a_multiple_of_16_tib() {
    let page = StackPage(page_of(0x7fff_0000_3000));
    assert!(page.is_within(0x7fff_0000_3000, 0x7fff_0000_4000));
    assert!(!page.is_within(0x7fff_0000_2000, 0x7fff_0000_3000));
    assert!(!page.is_within(0x7fff_0000_3000, 0x7fff_0000_3000));
    assert!(StackPage(0).is_within(0x0fff_ffff_f000, 0x1000_0000_1000));
}
