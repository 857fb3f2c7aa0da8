//! Who holds a lock.

use crate::sync::holder::{Holder, SOMEBODY, StackPage};

#[test]
fn the_mark_lies_in_the_stack_of_who_made_it() {
    let holder = Holder::new();
    assert_eq!(holder.page(), None);
    holder.mark();
    let here = 0u8;
    let here = &raw const here as usize;
    let page = holder.page().unwrap();
    assert!(page.is_within(here - 0x4000, here + 0x4000));
    assert!(page.near(here).abs_diff(here) < 0x4000);
    std::thread::scope(|s| {
        s.spawn(|| holder.mark());
    });
    let page = holder.page().unwrap();
    assert!(!page.is_within(here - 0x4000, here + 0x4000), "another thread's stack");
    holder.clear();
    assert_eq!(holder.page(), None);
}

#[test]
fn ranges_are_half_open_and_may_cross_a_multiple_of_8_tib() {
    let page_at =
        |address: usize| StackPage::of_mark(SOMEBODY | ((address >> 12) as u32 & !SOMEBODY)).unwrap();
    let page = page_at(0x7fff_0000_3000);
    assert!(page.is_within(0x7fff_0000_3000, 0x7fff_0000_4000));
    assert!(!page.is_within(0x7fff_0000_2000, 0x7fff_0000_3000));
    assert!(!page.is_within(0x7fff_0000_3000, 0x7fff_0000_3000));
    assert!(page_at(0x0800_0000_1000).is_within(0x07ff_ffff_f000, 0x0800_0000_2000));
    assert_eq!(page.near(0x7fff_1234_5678), 0x7fff_0000_3000);
    assert_eq!(StackPage::of_mark(SOMEBODY), None, "who does not run yet is nowhere");
}
