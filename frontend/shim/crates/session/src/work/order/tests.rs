//! The rules one by one, and random histories checked against a model that replays every record on ideal streams.

use super::*;

fn stream(order: &Order, number: u32, kind: Kind) -> Arc<Stream> {
    order.add(Stream::new(number, kind, 0, 0));
    order.find(number).unwrap()
}

fn work(order: &Order, stream: &Arc<Stream>) -> Point {
    Point::new(stream, order.mark(&mut Writer::new(), stream))
}

fn synchronize(order: &Order, stream: &Stream) {
    let start = order.begin_synchronize(stream);
    order.stream_synchronized(stream, start);
}

#[test]
fn nothing_is_pending_at_first_and_after_a_device_synchronization() {
    let order = Order::default();
    let other = stream(&order, 16, Kind::NonBlocking);
    assert!(!order.any_pending() && !order.pending(&order.legacy) && !order.pending(&other));
    work(&order, &other);
    work(&order, &order.legacy.clone());
    assert!(order.any_pending() && order.pending(&order.legacy) && order.pending(&other));
    order.device_synchronized(order.position());
    assert!(!order.any_pending() && !order.pending(&order.legacy) && !order.pending(&other));
}

#[test]
fn work_appended_during_a_synchronization_stays_pending() {
    let order = Order::default();
    let position = order.position();
    work(&order, &order.legacy.clone());
    order.device_synchronized(position);
    assert!(order.any_pending());
}

#[test]
fn synchronizing_a_stream_completes_that_stream_only() {
    let order = Order::default();
    let (one, two) = (stream(&order, 16, Kind::NonBlocking), stream(&order, 17, Kind::NonBlocking));
    work(&order, &one);
    work(&order, &two);
    synchronize(&order, &one);
    assert!(!order.pending(&one) && order.pending(&two) && order.any_pending());
    synchronize(&order, &two);
    assert!(!order.any_pending());
}

#[test]
fn legacy_work_makes_blocking_streams_wait_but_not_others() {
    let order = Order::default();
    let (blocking, free) = (stream(&order, 16, Kind::Blocking), stream(&order, 17, Kind::NonBlocking));
    work(&order, &order.legacy.clone());
    assert!(order.pending(&blocking) && order.pending(&order.per_thread) && !order.pending(&free));
    // Asked once; the answer says nothing about the legacy stream, whose work nothing in the blocking stream followed.
    synchronize(&order, &blocking);
    assert!(!order.pending(&blocking) && order.pending(&order.legacy) && order.pending(&order.per_thread));
}

#[test]
fn later_work_of_a_blocking_stream_implies_the_earlier_legacy_work() {
    let order = Order::default();
    let (one, two) = (stream(&order, 16, Kind::Blocking), stream(&order, 17, Kind::Blocking));
    work(&order, &two);
    work(&order, &order.legacy.clone());
    work(&order, &one);
    synchronize(&order, &one);
    assert!(!order.any_pending(), "the legacy work waited for stream two");
    work(&order, &two);
    assert!(order.any_pending() && !order.pending(&one));
}

#[test]
fn synchronizing_the_legacy_stream_completes_what_its_work_waited_for() {
    let order = Order::default();
    let one = stream(&order, 16, Kind::Blocking);
    work(&order, &one);
    work(&order, &order.legacy.clone());
    synchronize(&order, &order.legacy.clone());
    assert!(!order.any_pending());
    work(&order, &one);
    assert!(order.pending(&order.legacy));
    synchronize(&order, &order.legacy.clone());
    assert!(!order.pending(&order.legacy) && order.pending(&one));
}

#[test]
fn a_copy_in_the_legacy_stream_completes_all_blocking_streams() {
    let order = Order::default();
    let (one, free) = (stream(&order, 16, Kind::Blocking), stream(&order, 17, Kind::NonBlocking));
    work(&order, &one);
    work(&order, &free);
    let start = order.begin();
    order.work_done(&order.legacy, start);
    assert!(!order.pending(&one) && !order.pending(&order.legacy) && order.pending(&free));
}

#[test]
fn a_copy_in_a_blocking_stream_completes_it_and_the_legacy_work_before() {
    let order = Order::default();
    let (one, two) = (stream(&order, 16, Kind::Blocking), stream(&order, 17, Kind::Blocking));
    work(&order, &order.legacy.clone());
    work(&order, &two);
    order.work_done(&one, order.begin());
    assert!(!order.pending(&one) && !order.own_pending(&order.legacy) && order.pending(&two));
}

#[test]
fn a_point_is_done_with_its_stream_and_completes_what_precedes_it() {
    let order = Order::default();
    let one = stream(&order, 16, Kind::NonBlocking);
    work(&order, &one);
    let point = work(&order, &one);
    let later = work(&order, &one);
    assert!(order.point_pending(&point));
    order.point_done(&point);
    assert!(order.point_pending(&later) && order.pending(&one));
    synchronize(&order, &one);
    assert!(!order.point_pending(&point) && !order.point_pending(&later));
}

#[test]
fn work_of_a_destroyed_stream_keeps_the_device_busy() {
    for kind in [Kind::Blocking, Kind::NonBlocking] {
        let order = Order::default();
        let one = stream(&order, 16, kind);
        work(&order, &one);
        order.remove(16);
        assert!(order.find(16).is_none() && order.any_pending());
        assert_eq!(order.pending(&order.legacy), kind == Kind::Blocking);
        order.device_synchronized(order.position());
        assert!(!order.any_pending());
    }
}

/// The model: every record is an item that waits for other items, as the documentation has it in its weakest reading.
#[derive(Default)]
struct Model {
    /// Item -> (stream, items it directly waits for); all streams in order.
    items: Vec<(u32, Kind, Vec<usize>)>,
    done: std::collections::HashSet<usize>,
}

impl Model {
    fn push(&mut self, number: u32, kind: Kind) -> usize {
        let waits = (0..self.items.len()).filter(|&before| {
            let (other, other_kind, _) = self.items[before];
            let joined = kind == Kind::Legacy && other_kind == Kind::Blocking;
            other == number || joined || (kind == Kind::Blocking && other_kind == Kind::Legacy)
        });
        let waits = waits.collect();
        self.items.push((number, kind, waits));
        self.items.len() - 1
    }

    fn finish(&mut self, item: usize) {
        if self.done.insert(item) {
            for before in self.items[item].2.clone() {
                self.finish(before);
            }
        }
    }

    fn finish_stream(&mut self, number: u32) {
        for item in 0..self.items.len() {
            if self.items[item].0 == number {
                self.finish(item);
            }
        }
    }

    fn busy(&self, test: impl Fn(u32) -> bool) -> bool {
        (0..self.items.len()).any(|item| test(self.items[item].0) && !self.done.contains(&item))
    }
}

#[test]
fn random_histories_never_claim_completion_too_early() {
    let mut seed = 0x1234_5678_9ABC_DEF1_u64;
    let mut below = move |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % bound
    };
    let (mut local, mut exact) = (0, 0);
    for _ in 0..400 {
        let order = Order::default();
        let streams = [
            order.legacy.clone(),
            order.per_thread.clone(),
            stream(&order, 16, Kind::Blocking),
            stream(&order, 17, Kind::NonBlocking),
        ];
        let mut model = Model::default();
        let mut points: Vec<(Point, usize)> = Vec::new();
        for _ in 0..40 {
            let chosen = &streams[below(4) as usize];
            match below(8) {
                0..=3 => {
                    let point = work(&order, chosen);
                    points.push((point, model.push(chosen.number, chosen.kind)));
                }
                4 => {
                    let start = order.begin();
                    let item = model.push(chosen.number, chosen.kind);
                    model.finish(item);
                    order.work_done(chosen, start);
                }
                5 if !points.is_empty() => {
                    let (point, item) = &points[below(points.len() as u64) as usize];
                    model.finish(*item);
                    order.point_done(point);
                }
                6 if below(4) == 0 => {
                    order.device_synchronized(order.position());
                    (0..model.items.len()).for_each(|item| model.finish(item));
                }
                _ => {
                    if !order.pending(chosen) {
                        assert!(!model.busy(|number| number == chosen.number));
                        local += 1;
                    }
                    model.finish_stream(chosen.number);
                    synchronize(&order, chosen);
                    assert!(!order.pending(chosen), "asked twice");
                }
            }
            assert!(order.any_pending() || !model.busy(|_| true), "idle claimed too early");
            exact += u32::from(!order.any_pending());
            for (point, item) in &points {
                assert!(order.point_pending(point) || model.done.contains(item));
            }
        }
    }
    assert!(local > 100 && exact > 100, "the test must meet both cases: {local} {exact}");
}

#[test]
fn what_was_lost_stays_pending() {
    let order = Order::default();
    let other = stream(&order, 16, Kind::NonBlocking);
    order.lose(&other);
    order.device_synchronized(order.position());
    assert!(order.pending(&other) && order.any_pending() && !order.pending(&order.legacy));
}

/// Threads append and synchronize at once; the tape is a list. What is called complete must precede an answered
/// synchronization on that tape, whatever the interleaving.
#[test]
fn concurrent_threads_never_claim_completion_too_early() {
    use std::sync::Mutex;
    for round in 0..30 {
        let order = Order::default();
        let streams: Vec<_> = (16..20).map(|number| stream(&order, number, Kind::NonBlocking)).collect();
        let tape: Mutex<(Vec<u32>, Writer)> = Mutex::default();
        let answered = AtomicU64::new(0); // records before the latest answered synchronization
        std::thread::scope(|scope| {
            for own in &streams {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let (records, writer) = &mut *tape.lock().unwrap();
                        order.mark(writer, own);
                        records.push(own.number);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..50 {
                    let position = order.position();
                    let before = tape.lock().unwrap().0.len() as u64;
                    order.device_synchronized(position);
                    raise(&answered, before);
                    std::thread::yield_now();
                }
            });
        });
        let (tape, answered) = (tape.into_inner().unwrap().0, answered.load(Acquire) as usize);
        for own in &streams {
            let unanswered = tape[answered..].contains(&own.number);
            assert!(order.pending(own) || !unanswered, "round {round}: stream {}", own.number);
        }
    }
}
