use super::*;
use crate::outgoing::lead::{LeadHole, Leads};
use slices::form::{Argument, Block, Call, Code, End, Input, Operation, Origin, Place, Slice, Spot};
use tape::generated_operations as operation;
use tape::Writer;

const SITE: u64 = 0x1000;

/// `do { read(address, 4) -> value; address += 8; } while (value);`
fn slice() -> Slice {
    let place = Place { offset: 0, size: 4 };
    let operation = |code, width, target, operands, immediate| Operation { code, width, target, operands, immediate };
    Slice {
        entry: SITE,
        registers: 3,
        memory: 4,
        inputs: vec![Input { origin: Origin::Register(3), to: Spot::Register { number: 0, width: 8 } }],
        blocks: vec![
            Block { operations: vec![], end: End::Called { call: 0, block: 1 } },
            Block {
                operations: vec![
                    operation(Code::Constant, 8, Some(2), [0; 3], 8),
                    operation(Code::Add, 8, Some(0), [0, 2, 0], 0),
                    operation(Code::Load, 4, Some(1), [0; 3], 0),
                ],
                end: End::Branch { register: 1, then: 0, other: 2 },
            },
            Block { operations: vec![], end: End::Leave(0x2000) },
        ],
        calls: vec![Call {
            site: SITE,
            name: "cudaMemcpy".to_owned(),
            arguments: vec![Argument { number: 1, value: Spot::Register { number: 0, width: 8 } }],
            source: None,
            fills: Some(place),
        }],
        floating: false,
    }
}

fn record(address: u64, slot: u32) -> Vec<u8> {
    let mut writer = Writer::new();
    operation::read(&mut writer, address, 4, 4, 1, 1, slot);
    writer.as_slice().to_vec()
}

fn following() -> Following {
    let body = record(0, 0);
    let lead = Lead {
        name: "the loop of a test",
        key: 0,
        slice: Arc::new(slice()),
        slice_bytes: &[1, 2, 3],
        sites: vec![SITE],
        records: vec![Some(0..body.len())],
        body,
        holes: vec![LeadHole { offset: 8, width: 8, call: 0, argument: Some(0), at: 0 }],
        inputs: vec![64_u64.to_le_bytes().to_vec()],
        thread: 1,
        result_bytes: 4,
        again: false,
    };
    Following::new(lead, 0, false, Duration::from_millis(50)).expect("its inputs")
}

#[test]
fn a_record_as_the_slice_says_is_taken_until_the_loop_is_left() {
    let mut following = following();
    for (address, value) in [(64, 5_u32), (72, 1), (80, 0)] {
        assert!(following.goes_on());
        assert_eq!(following.take(&record(address, 9), SITE), Taken::Question);
        assert!(following.arrived(&value.to_le_bytes()));
    }
    // The last result came in the iteration in which the loop is left: the host has left it, too.
    assert!(!following.goes_on() && !following.may_stop_early());
    assert_eq!(following.take(&record(88, 9), SITE), Taken::Over);
}

#[test]
fn an_execution_is_short_that_asks_once_and_was_led_from_its_beginning() {
    let mut other = following();
    assert!(other.was_short());
    other.lead.again = true;
    assert!(!other.was_short(), "the program's own iteration comes before it");
    let mut longer = following();
    for (address, value) in [(64, 5_u32), (72, 1)] {
        assert!(longer.was_short());
        assert_eq!(longer.take(&record(address, 9), SITE), Taken::Question);
        assert!(longer.arrived(&value.to_le_bytes()));
    }
    assert!(!longer.was_short());
}

#[test]
fn a_loop_is_short_after_three_short_executions_in_a_row() {
    let mut leads = Leads::default();
    for (short, is_short) in [(true, false), (true, false), (false, false), (true, false), (true, false), (true, true)]
    {
        leads.ended(5, false, short);
        assert_eq!((leads.is_short(5), leads.is_short(6), leads.gives_up(5)), (is_short, false, false));
    }
    leads.ended(5, false, false);
    assert!(!leads.is_short(5));
}

#[test]
fn another_record_breaks_the_proof_and_names_the_loop() {
    for (bytes, site) in [(record(72, 0), SITE), (record(64, 0), SITE + 1)] {
        let Taken::Broken(why) = following().take(&bytes, site) else { panic!("it was taken") };
        assert!(
            why.contains("the loop of a test") && why.contains("iteration 1") && why.contains("cudaMemcpy"),
            "{why}"
        );
    }
}

#[test]
fn a_call_that_failed_is_passed_over() {
    let mut following = following();
    following.failed();
    // What the host reads is another word than what comes next: the program asks by itself when it learns that.
    assert!(matches!(following.take(&record(72, 0), SITE), Taken::Question | Taken::Over));
    assert!(following.unsure);
}

#[test]
fn the_window_grows_to_its_bound() {
    let mut following = following();
    let (bounds, times): (Vec<u64>, Vec<u32>) = (0..8).map(|_| following.bounds()).unzip();
    assert_eq!((times[0], times[1], times[7]), (50_000, 100_000, 1_000_000));
    assert_eq!(bounds[..3], [FIRST_WINDOW, 2 * FIRST_WINDOW, 4 * FIRST_WINDOW]);
    assert_eq!(bounds[7], LAST_WINDOW);
}

#[test]
fn the_host_learns_a_loop_once() {
    let (mut leads, mut writer) = (Leads::default(), Writer::new());
    let lead = |address: u64| Lead { body: record(address, 0), ..following().lead };
    assert_eq!(leads.define(&lead(0), &mut writer), Some(0));
    let first = writer.len();
    assert_eq!((leads.define(&lead(0), &mut writer), writer.len()), (Some(0), first));
    assert_eq!(leads.define(&Lead { key: 7, ..lead(0) }, &mut writer), Some(1));
    let second = writer.len();
    assert_eq!(leads.define(&lead(1 << 32), &mut writer), Some(0), "with other records");
    assert!(writer.len() > second);
}
