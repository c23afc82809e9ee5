//! WHILE: a loop that sets and reads memory as often as its one input says.

use super::{entry, template};
use crate::device::cuda::fake;
use crate::replay::tests::{records, Session, KNOWN};
use slices::form::Code;
use tape::operations as write;
use tape::Writer;

/// What a READ brings, and what becomes of it.
#[derive(Clone, Copy)]
struct Reading {
    size: u16,
    fills: bool,
    /// From memory that the control plane alone reads.
    asked: bool,
}

const SMALL: Reading = Reading { size: 4, fills: true, asked: false };

fn operation(out: &mut Vec<u8>, code: Code, width: u8, target: u16, operands: &[u16]) {
    out.extend([code as u8, width]);
    out.extend(target.to_le_bytes());
    operands.iter().for_each(|operand| out.extend(operand.to_le_bytes()));
}

/// `do { set(a, n); copy(&value, a, size); n--; } while (n)`, n its input
fn counting(reading: Reading) -> Vec<u8> {
    let numbers =
        |out: &mut Vec<u8>, numbers: &[u16]| numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
    let mut out = 0x1000_u64.to_le_bytes().to_vec();
    let memory = if reading.fills { reading.size } else { 0 };
    numbers(&mut out, &[2, memory, 1, 4, 2]); // registers, memory, inputs, blocks, calls
    out.extend([0, 0]);
    out.extend([0, 1]);
    numbers(&mut out, &[0, 8]);
    out.extend(3_u64.to_le_bytes());
    for (arguments, fills) in [(1, 0), (0, memory)] {
        out.extend(0x1000_u64.to_le_bytes());
        out.extend([4, arguments]);
        numbers(&mut out, &[0, 0, 0, fills]);
        out.extend(b"copy");
        if arguments > 0 {
            out.extend([1, 1]);
            numbers(&mut out, &[0, 8]);
        }
    }
    numbers(&mut out, &[1]);
    operation(&mut out, Code::Constant, 8, 1, &[]);
    out.extend(1_u64.to_le_bytes());
    out.push(2);
    numbers(&mut out, &[0, 1]);
    numbers(&mut out, &[1]);
    operation(&mut out, Code::Subtract, 8, 0, &[0, 1]);
    out.push(2);
    numbers(&mut out, &[1, 2]);
    numbers(&mut out, &[0]);
    out.push(1);
    numbers(&mut out, &[0, 0, 3]);
    numbers(&mut out, &[0]);
    out.push(3);
    out.extend(0x2000_u64.to_le_bytes());
    out
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn define(w: &mut Writer, base: u64, reading: Reading) {
    let from = if reading.asked { 1 << 63 } else { base };
    let body = records(|w| {
        write::memset(w, base, 4, 4, 1, 0, 4, KNOWN);
        write::read(w, from, 0, reading.size.into(), 1, KNOWN, 0);
    });
    template(w, 0, &[(40, 4)], &body);
    let slice = counting(reading);
    let content = [padded(slice.clone()), padded([0_u32, 1].map(u32::to_le_bytes).concat()), entry(0, 0)].concat();
    write::slice(w, 0, 0, slice.len() as u32, &content);
}

fn decide(w: &mut Writer, iterations: u64, count: u64) {
    write::while_(w, 0, 9, iterations, 0, false, &count.to_le_bytes());
}

/// A slice and WHILEs as hosts get them.
pub(super) fn hostile(w: &mut Writer, base: u64, next: &mut impl FnMut() -> u64) {
    define(w, base, Reading { size: 1 + next() as u16 % 40, fills: !next().is_multiple_of(3), asked: false });
    write::while_(w, 0, 9, 7, 64, false, &(1 + next() % 9).to_le_bytes());
    write::while_(w, 0, 9, 1 + next() % 3, 64, true, &[]);
}

#[test]
fn calls_are_made_as_the_slice_says() {
    let host = || Session::new(true);
    let driver = || Session::on(Box::new(fake::cuda()));
    for mut session in [host(), driver()] {
        let base = session.base();
        let told = session.results(&records(|w| {
            define(w, base, SMALL);
            decide(w, 2, 5);
            write::while_(w, 0, 10, 0, 0, true, &[]);
        }));
        let data = |slot, number: u32| (slot, 0, number.to_le_bytes().to_vec());
        let value = |slot| (slot, 0, vec![]);
        assert_eq!(told, [data(9, 5), data(9, 4), value(9), data(10, 3), data(10, 2), data(10, 1), value(10)]);
        assert_eq!(session.fake.asked, ["end"], "nothing is asked for");
    }
}

#[test]
fn the_control_plane_reads_for_a_slice() {
    let mut session = Session::new(true);
    let base = session.base();
    let told = session.results(&records(|w| {
        define(w, base, Reading { asked: true, size: 4096, ..SMALL });
        decide(w, 0, 2);
    }));
    assert_eq!(told.iter().map(|(_, _, data)| data.len()).collect::<Vec<_>>(), [4096, 4096, 0]);
    assert_eq!(session.fake.asked, ["READ", "READ", "end"]);
}

#[test]
fn large_reads_leave_in_pieces() {
    let mut session = Session::new(true);
    let base = session.base();
    let size = 60_000;
    let told = session.results(&records(|w| {
        define(w, base, Reading { size, fills: false, asked: false });
        decide(w, 0, 3);
    }));
    let sizes: Vec<_> = told.iter().map(|(_, _, data)| data.len()).collect();
    assert_eq!(sizes, [usize::from(size), usize::from(size), usize::from(size), 0]);
}

#[test]
fn a_loop_ends_with_its_guest() {
    let mut session = Session::new(true);
    let base = session.base();
    let endless = records(|w| {
        define(w, base, SMALL);
        decide(w, 0, 0);
    });
    assert_eq!(session.submit(&endless).unwrap_err(), "gone", "it takes a few replies");
}
