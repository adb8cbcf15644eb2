//! Works through a list on several threads, and hands out the results in the list's order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Applies `work` to each item on `threads` threads, and calls `done` on this thread with each result, in order. If the
/// system starts fewer threads, for example because of a limit on processes, fewer threads do the work.
pub fn for_each<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(R),
) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let mut started = 0;
        while started < threads.min(items.len()) {
            let (sender, work, next) = (sender.clone(), &work, &next);
            let worker = move || {
                while let Some((place, item)) = take(items, next) {
                    // The receiver lives as long as this scope.
                    let _ = sender.send((place, work(item)));
                }
            };
            if thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
            started += 1;
        }
        drop(sender);
        if started == 0 {
            return items.iter().for_each(|item| done(work(item)));
        }
        let (mut waiting, mut wanted) = (BTreeMap::new(), 0);
        for (place, result) in receiver {
            waiting.insert(place, result);
            while let Some(result) = waiting.remove(&wanted) {
                done(result);
                wanted += 1;
            }
        }
    });
}

fn take<'t, T>(items: &'t [T], next: &AtomicUsize) -> Option<(usize, &'t T)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    items.get(place).map(|item| (place, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let items: Vec<u64> = (0..100).collect();
        for threads in [1, 2, 7, 200] {
            let mut results = Vec::new();
            let work = |&item: &u64| {
                thread::sleep(std::time::Duration::from_micros(item * 7919 % 300));
                item
            };
            for_each(&items, threads, work, |result| results.push(result));
            assert_eq!(results, items, "{threads} threads");
        }
    }
}
