//! Tests of holders' marks: the page in a mark lies in the stack of the holder.

use crate::sync::holder::{Holder, SOMEBODY, StackPage};

#[test]
fn the_mark_lies_in_the_stack_of_who_made_it() {
    let holder = Holder::new();
    assert_eq!(holder.page(), None);
    holder.mark();
    let here = 0u8;
    let here = &raw const here as usize;
    let page = holder.page().unwrap();
    assert!(page.near(here).abs_diff(here) < 0x4000);
    std::thread::scope(|s| {
        s.spawn(|| holder.mark());
    });
    let page = holder.page().unwrap();
    assert!(page.near(here).abs_diff(here) > 0x4000, "another thread's stack");
    holder.clear();
    assert_eq!(holder.page(), None);
}

#[test]
fn the_nearest_page_of_that_number() {
    let page_at =
        |address: usize| StackPage::of_mark(SOMEBODY | ((address >> 14) as u32 & !SOMEBODY)).unwrap();
    let page = page_at(0x7fff_0000_4000);
    assert_eq!(page.near(0x7fff_1234_5678), 0x7fff_0000_4000);
    assert_eq!(page.near(0x7ffe_1234_5678), 0x7fff_0000_4000);
    assert_eq!(page_at(0x2000_0000_4000).near(0x1fff_ffff_c000), 0x2000_0000_4000, "beyond 32 TiB");
    assert_eq!(page_at(0x1fff_ffff_c000).near(0x2000_0000_4000), 0x1fff_ffff_c000);
    assert_eq!(StackPage::of_mark(SOMEBODY), None, "a holder that does not run yet has no page");
}
