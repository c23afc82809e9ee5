use super::*;

fn data(offset: u64, bytes: &[u8]) -> ResultRecord<'_> {
    ResultRecord::Data { slot: 1, error: 0, offset, data: bytes }
}

fn rows(memory: &mut [u8], pitch: usize, width: usize, height: usize) -> Waiter {
    Waiter::for_rows(Destination { ptr: memory.as_mut_ptr(), pitch, width, height }).expect("fits")
}

#[test]
fn chunks_land_in_their_rows_and_nowhere_else() {
    let mut memory = [0_u8; 14];
    let waiter = rows(&mut memory, 5, 3, 3);
    for (offset, bytes) in [(0, &[1, 2][..]), (2, &[3, 4, 5, 6, 7]), (7, &[]), (7, &[8, 9])] {
        assert_eq!(waiter.fill(&data(offset, bytes)), Ok(()));
    }
    assert!(waiter.complete());
    assert_eq!(waiter.wait(), Some(Answer { error: 0, value: 0 }));
    assert_eq!(memory, [1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 7, 8, 9, 0]);
}

#[test]
fn data_that_was_not_asked_for_is_refused_and_not_written() {
    let mut memory = [0_u8; 8];
    let waiter = rows(&mut memory, 4, 4, 1);
    assert!(waiter.fill(&data(1, &[9])).is_err(), "a gap");
    assert!(waiter.fill(&data(0, &[9; 5])).is_err(), "too long");
    assert!(waiter.fill(&data(u64::MAX, &[9])).is_err(), "far outside");
    assert!(waiter.fill(&ResultRecord::Status { slot: 1, error: 0 }).is_err());
    assert!(!waiter.complete());
    assert_eq!(waiter.fill(&data(0, &[1; 4])), Ok(()));
    assert!(waiter.fill(&data(4, &[9])).is_err(), "behind the end");
    assert_eq!(memory, [1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn an_error_ends_a_read() {
    let mut memory = [0_u8; 4];
    let waiter = rows(&mut memory, 4, 4, 1);
    assert_eq!(waiter.fill(&data(0, &[1])), Ok(()));
    assert_eq!(waiter.fill(&ResultRecord::Data { slot: 1, error: 700, offset: 0, data: &[] }), Ok(()));
    assert!(waiter.fill(&data(1, &[1])).is_err());
    assert!(waiter.complete());
    assert_eq!(waiter.wait(), Some(Answer { error: 700, value: 0 }));
}

#[test]
fn an_empty_read_is_answered_with_or_without_a_record() {
    let waiter =
        Waiter::for_rows(Destination { ptr: std::ptr::null_mut(), pitch: 0, width: 0, height: 9 }).expect("fits");
    assert!(waiter.complete());
    let waiter =
        Waiter::for_rows(Destination { ptr: std::ptr::null_mut(), pitch: 0, width: 7, height: 0 }).expect("fits");
    assert!(waiter.fill(&data(0, &[1])).is_err());
    assert_eq!(waiter.fill(&ResultRecord::Data { slot: 1, error: 1, offset: 0, data: &[] }), Ok(()));
    assert_eq!(waiter.wait_after_complete(), Some(Answer { error: 1, value: 0 }));
}

#[test]
fn impossible_destinations_are_refused() {
    let make = |pitch, width, height| Waiter::for_rows(Destination { ptr: std::ptr::null_mut(), pitch, width, height });
    assert!(make(usize::MAX, usize::MAX, 2).is_none());
    assert!(make(3, 4, 2).is_none(), "rows would overlap");
    assert!(make(0, 4, 1).is_some(), "the pitch of a single row does not matter");
}

#[test]
fn a_second_answer_is_refused() {
    let waiter = Waiter::for_answer();
    assert!(!waiter.complete());
    assert_eq!(waiter.fill(&ResultRecord::Value { slot: 1, error: 0, value: 7 }), Ok(()));
    assert!(waiter.fill(&ResultRecord::Status { slot: 1, error: 0 }).is_err());
    assert!(waiter.fill(&data(0, &[])).is_err());
    assert_eq!(waiter.wait_after_complete(), Some(Answer { error: 0, value: 7 }));
}

#[test]
fn several_answers_are_one_outcome() {
    let waiter = Waiter::for_answers(2);
    assert_eq!(waiter.fill(&ResultRecord::Value { slot: 1, error: 0, value: 7 }), Ok(()));
    assert!(!waiter.complete() && waiter.advance(0));
    assert!(waiter.fill(&data(0, &[])).is_err());
    assert_eq!(waiter.fill(&ResultRecord::Value { slot: 2, error: 13, value: 0 }), Ok(()));
    assert!(!waiter.advance(0), "there is no third one");
    assert!(waiter.fill(&ResultRecord::Status { slot: 3, error: 0 }).is_err());
    assert_eq!(waiter.wait_after_complete(), Some(Answer { error: 0, value: 0 }));
    assert_eq!(waiter.take_answers(), [Answer { error: 0, value: 7 }, Answer { error: 13, value: 0 }]);
}

#[test]
fn abandoning_wakes_the_waiting_thread() {
    let waiter = std::sync::Arc::new(Waiter::for_answer());
    let thread = std::thread::spawn({
        let waiter = waiter.clone();
        move || waiter.wait()
    });
    std::thread::sleep(std::time::Duration::from_millis(5));
    waiter.abandon();
    assert_eq!(thread.join().expect("no panic"), None);
}

impl Waiter {
    fn wait_after_complete(&self) -> Option<Answer> {
        assert!(self.complete());
        self.wait()
    }
}
