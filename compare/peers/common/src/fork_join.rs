//! Group "join": fork-join algorithms, the same code for each peer that has a function such as `rayon::join`.

use crate::{Args, FIB_REPEAT, Report, fib_forks};
use std::hint::black_box;
use std::time::Instant;

/// A function that runs two functions, perhaps at the same time, and returns both results.
pub trait Join {
    /// Runs them.
    fn join<RA: Send, RB: Send>(a: impl FnOnce() -> RA + Send, b: impl FnOnce() -> RB + Send) -> (RA, RB);
}

/// A Fibonacci number by recursion, with a fork for each call; per fork. Called where the peer forks.
pub fn join_fib<J: Join>(args: &Args) -> Report {
    let n = args.size(27);
    black_box(fib::<J>(n));
    let start = Instant::now();
    for _ in 0..FIB_REPEAT {
        black_box(fib::<J>(n));
    }
    Report::new(fib_forks(n) * FIB_REPEAT, start.elapsed())
}

fn fib<J: Join>(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (left, right) = J::join(|| fib::<J>(n - 1), || fib::<J>(n - 2));
    left + right
}

/// Parts of this length are sorted and merged without forks.
const ALONE: usize = 2048;
/// How many times `join_sort` sorts.
const SORTS: usize = 4;

/// A parallel merge sort, whose merges are parallel, too; per number.
pub fn join_sort<J: Join>(args: &Args) -> Report {
    let n = args.size(4_000_000) as usize;
    let unsorted: Vec<u32> = {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        (0..n).map(|_| next()).collect()
    };
    let mut buffer = vec![0; n];
    let mut numbers = unsorted.clone();
    merge_sort::<J>(&mut numbers, &mut buffer);
    assert!(numbers.is_sorted());
    let mut copies = vec![unsorted; SORTS];
    let start = Instant::now();
    for copy in &mut copies {
        merge_sort::<J>(black_box(copy), &mut buffer);
    }
    let time = start.elapsed();
    assert!(copies.iter().all(|copy| *copy == numbers));
    Report::new((n * SORTS) as u64, time)
}

fn merge_sort<J: Join>(numbers: &mut [u32], buffer: &mut [u32]) {
    if numbers.len() <= ALONE {
        return numbers.sort_unstable();
    }
    let middle = numbers.len() / 2;
    let (left, right) = numbers.split_at_mut(middle);
    let (left_buffer, right_buffer) = buffer.split_at_mut(middle);
    J::join(|| merge_sort::<J>(left, left_buffer), || merge_sort::<J>(right, right_buffer));
    merge::<J>(left, right, buffer);
    numbers.copy_from_slice(buffer);
}

/// Merges two sorted slices into `to`.
fn merge<J: Join>(a: &[u32], b: &[u32], to: &mut [u32]) {
    if a.len() < b.len() {
        return merge::<J>(b, a, to);
    }
    if to.len() <= ALONE {
        let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
        for place in to {
            let from_a = b.peek().is_none_or(|second| a.peek().is_some_and(|first| first <= second));
            *place = *if from_a { a.next() } else { b.next() }.expect("as long as both");
        }
        return;
    }
    let (low_a, high_a) = a.split_at(a.len() / 2);
    let (low_b, high_b) = b.split_at(b.partition_point(|number| *number < high_a[0]));
    let (low, high) = to.split_at_mut(low_a.len() + low_b.len());
    J::join(|| merge::<J>(low_a, low_b, low), || merge::<J>(high_a, high_b, high));
}

/// Rows and columns of a block.
const BLOCK: usize = 32;
/// How many times `join_matmul` multiplies.
const PRODUCTS: usize = 8;

/// A part of a matrix, by rows.
#[derive(Clone)]
struct Block([[f32; BLOCK]; BLOCK]);

/// The product of two matrices of n rows and columns, with a fork for each half of the result's blocks; per
/// product of two blocks.
pub fn join_matmul<J: Join>(args: &Args) -> Report {
    let wide = args.size(512) as usize / BLOCK;
    let matrix = |seed: usize| -> Vec<Block> {
        let cell = |at: usize, row: usize, column: usize| ((at * 7 + row * 3 + column + seed) % 5) as f32;
        let block =
            |at| Block(std::array::from_fn(|row| std::array::from_fn(|column| cell(at, row, column))));
        (0..wide * wide).map(block).collect()
    };
    let (a, b) = (matrix(0), matrix(1));
    let mut product = vec![Block([[0.0; BLOCK]; BLOCK]); wide * wide];
    multiply::<J>(&a, &b, wide, 0, &mut product);
    let start = Instant::now();
    for _ in 0..PRODUCTS {
        multiply::<J>(black_box(&a), &b, wide, 0, &mut product);
    }
    let time = start.elapsed();
    black_box(&product);
    Report::new((wide * wide * wide * PRODUCTS) as u64, time)
}

/// Computes the blocks of the result from number `first` on.
fn multiply<J: Join>(a: &[Block], b: &[Block], wide: usize, first: usize, product: &mut [Block]) {
    if let [one] = product {
        let (row, column) = (first / wide, first % wide);
        *one = Block([[0.0; BLOCK]; BLOCK]);
        for k in 0..wide {
            add_product(&a[row * wide + k], &b[k * wide + column], one);
        }
        return;
    }
    let middle = product.len() / 2;
    let (low, high) = product.split_at_mut(middle);
    J::join(|| multiply::<J>(a, b, wide, first, low), || multiply::<J>(a, b, wide, first + middle, high));
}

fn add_product(a: &Block, b: &Block, sum: &mut Block) {
    for (row, sum) in a.0.iter().zip(&mut sum.0) {
        for (factor, row_of_b) in row.iter().zip(&b.0) {
            for (cell, other) in sum.iter_mut().zip(row_of_b) {
                *cell += factor * other;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Calls;

    impl Join for Calls {
        fn join<RA: Send, RB: Send>(
            a: impl FnOnce() -> RA + Send,
            b: impl FnOnce() -> RB + Send,
        ) -> (RA, RB) {
            (a(), b())
        }
    }

    #[test]
    fn results_are_right() {
        assert_eq!(fib::<Calls>(20), 6765);
        let mut numbers: Vec<u32> = (0..100_000u32).map(|n| n.wrapping_mul(2_654_435_761) % 5_000).collect();
        let mut expected = numbers.clone();
        expected.sort_unstable();
        let mut buffer = vec![0; numbers.len()];
        merge_sort::<Calls>(&mut numbers, &mut buffer);
        assert!(numbers == expected);
        let ones = vec![Block([[1.0; BLOCK]; BLOCK]); 9];
        let mut product = ones.clone();
        multiply::<Calls>(&ones, &ones, 3, 0, &mut product);
        assert!(
            product.iter().flat_map(|block| block.0.as_flattened()).all(|&cell| cell == 3.0 * BLOCK as f32)
        );
    }
}
