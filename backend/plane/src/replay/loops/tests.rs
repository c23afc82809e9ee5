//! Loops: what columns hold beside what the page says of them, iterations beside the records that they stand for,
//! devices that stop.

mod deciding;

use super::columns::{read_headers, Columns, Header, AFFINE, PERIODIC, SAME, VALUES};
use super::template::Template;
use super::upcoming;
use crate::replay::control::Stop;
use crate::replay::errors::CudaError;
use crate::replay::tests::{launch, records, Session, KNOWN};
use tape::operations as write;
use tape::{Writer, VERSION};

const FENCE_SLOT: u32 = 8;

fn entry(offset: u32, width: u8) -> Vec<u8> {
    [&offset.to_le_bytes()[..], &[width, 0, 0, 0]].concat()
}

fn template(w: &mut Writer, number: u32, holes: &[(u32, u8)], body: &[u8]) {
    let entries = holes.iter().flat_map(|&(offset, width)| entry(offset, width));
    let content: Vec<u8> = entries.chain(body.iter().copied()).collect();
    write::template(w, number, holes.len() as u32, &content);
}

fn column(kind: u8, lag: u8, number: u32, values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, lag, 0, 0];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(values);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn affine(start: u64, step: u64) -> Vec<u8> {
    column(AFFINE, 0, 0, &[start.to_le_bytes(), step.to_le_bytes()].concat())
}

fn fence() -> Vec<u8> {
    records(|w| write::fence(w, 0))
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn column(&mut self, widths: &[u8], index: usize, count: u32) -> Vec<u8> {
        let width = usize::from(widths[index]);
        let mut values = |amount: usize| (0..width * amount).map(|_| self.next() as u8).collect::<Vec<u8>>();
        match values(1)[0] % 4 {
            AFFINE => affine(u64::from(values(1)[0]) << 24, u64::from(values(1)[0]) << 20),
            VALUES => column(VALUES, 0, count, &values(count as usize)),
            PERIODIC => column(PERIODIC, 0, 3, &values(3)),
            _ => {
                let lag = [0, 1, 2, 16][values(1)[0] as usize % 4];
                let number = u32::from(values(1)[0]) % widths.len() as u32;
                column(SAME, lag, number, &values(usize::from(lag)))
            }
        }
    }
}

/// TEMPLATEs and REPEATs as hosts get them: nested, with holes in records of several kinds.
pub(in crate::replay) fn hostile(w: &mut Writer, base: u64, next: &mut impl FnMut() -> u64) {
    if next().is_multiple_of(2) {
        return deciding::hostile(w, base, next);
    }
    let number = next() as u32 % 3;
    let body = records(|w| {
        write::fence(w, 0);
        launch(w, 1);
        if number > 0 {
            write::repeat(w, number - 1, 1 + next() % 3, false, &affine(next(), 1));
        }
        write::event_record(w, KNOWN, KNOWN, 0);
    });
    template(w, number, &[(FENCE_SLOT, 4)], &body);
    write::repeat(w, number, 1 + next() % 70, false, &affine(next(), next()));
    write::repeat(w, number, 1 + next() % 3, next().is_multiple_of(2), &[]);
}

/// What the page says a column holds, by following it.
fn said(headers: &[Header], data: &[u8], mut index: usize, mut k: u64) -> u64 {
    let number = |at: usize, width: u8| {
        let mut bytes = [0; 8];
        bytes[..usize::from(width)].copy_from_slice(&data[at..at + usize::from(width)]);
        u64::from_le_bytes(bytes)
    };
    loop {
        let header = headers[index];
        let begin = header.begin as usize;
        let place = match header.kind {
            AFFINE => {
                let value = number(begin, 8).wrapping_add(number(begin + 8, 8).wrapping_mul(k));
                return value & (u64::MAX >> (64 - 8 * u32::from(header.width)));
            }
            SAME if k >= u64::from(header.lag) => {
                k -= u64::from(header.lag);
                index = header.number as usize;
                continue;
            }
            PERIODIC => k % u64::from(header.number),
            _ => k,
        };
        return number(begin + place as usize * usize::from(header.width), header.width);
    }
}

#[test]
fn columns_hold_what_the_page_says() {
    let mut random = Random(1);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let widths: Vec<u8> = (0..=random.next() % 5).map(|_| [1, 2, 4, 8][random.next() as usize % 4]).collect();
        let count = 1 + random.next() as u32 % 40;
        let mut data: Vec<u8> = (0..widths.len()).flat_map(|index| random.column(&widths, index, count)).collect();
        if random.next().is_multiple_of(3) {
            let at = random.next() as usize % data.len();
            data[at] ^= 1 << (random.next() % 8);
        }
        let Ok(headers) = read_headers(&data, &widths) else {
            refused += 1;
            continue;
        };
        taken += 1;
        let columns = Columns::new(&headers, &data);
        for (index, header) in headers.iter().enumerate() {
            let given = headers.iter().any(|header| header.kind == VALUES);
            let last = if given { header.number.clamp(1, count) } else { 600 };
            let last = if given && header.kind != VALUES { 1 } else { last };
            let expected: Vec<u64> = (0..u64::from(last)).map(|k| said(&headers, &data, index, k)).collect();
            for (k, &value) in (0..).zip(&expected) {
                assert_eq!(columns.value(index, k), value, "{header:?} in iteration {k}");
            }
            let first = random.next() as usize % expected.len();
            let mut seen = vec![];
            columns.values(index, first as u64, expected.len() - first, |k, value| seen.push((k, value)));
            let expected: Vec<_> = expected[first..].iter().copied().enumerate().collect();
            assert_eq!(seen, expected);
            if let Some(constant) = columns.constant(index) {
                assert!(expected.iter().all(|&(_, value)| value == constant));
            }
        }
    }
    assert!(taken > 2_000 && refused > 2_000, "{taken} taken, {refused} refused");
}

/// Whatever bytes come: what is taken obeys the page.
#[test]
fn mutated_templates_do_no_harm() {
    let inner = std::sync::Arc::new(Template::read(0, 1, &[entry(8, 4), fence()].concat(), VERSION, missing).unwrap());
    let body = records(|w| {
        write::memset(w, 0, 64, 4, 2, 7, 1, KNOWN);
        write::write(w, 0, 0, 8, 1, KNOWN, false, false, &[0; 8]);
        write::repeat(w, 0, 3, false, &affine(0, 0));
        write::read(w, 0, 0, 8, 1, KNOWN, 0);
    });
    let places = [(8, 8), (56 + 8, 8), (56 + 48, 4), (112 + 32, 8), (112 + 48 + 8, 8)];
    let valid: Vec<u8> = places.iter().flat_map(|&(offset, width)| entry(offset, width)).chain(body).collect();
    let mut random = Random(7);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let mut content = valid.clone();
        for _ in 0..random.next() % 3 {
            let at = random.next() as usize % content.len();
            content[at] = [0, 1, 4, 8, 0x80, random.next() as u8][random.next() as usize % 6];
        }
        let known = |number| if number == 0 { Ok(inner.clone()) } else { missing(number) };
        let Ok(template) = Template::read(1, places.len() as u32, &content, VERSION, known) else {
            refused += 1;
            continue;
        };
        taken += 1;
        let mut end = 0;
        for hole in &template.holes {
            let part = &template.parts[hole.record];
            assert!(hole.offset >= end && part.offset + 8 <= hole.offset);
            end = hole.offset + usize::from(hole.width);
            assert!(end <= part.offset + part.length);
        }
        let mut filled = template.body.clone();
        for hole in &template.holes {
            filled[hole.offset..hole.offset + usize::from(hole.width)].fill(0xFF);
        }
        for part in &template.parts {
            if let Ok(record) = part.record(&filled, VERSION) {
                assert!(record.row.fixed + record.tail().len() <= record.bytes.len());
                assert_eq!((record.row.code, record.tail().len()), (part.row.code, tail(&template.body, part.offset)));
            }
        }
    }
    assert!(taken > 10_000 && refused > 10_000, "{taken} taken, {refused} refused");
}

fn tail(body: &[u8], at: usize) -> usize {
    tape::Record::read(body, at, VERSION).unwrap().tail().len()
}

fn missing(number: u32) -> Result<std::sync::Arc<Template>, String> {
    Err(format!("template {number} was not given"))
}

#[test]
fn iterations_are_the_records_they_stand_for() {
    let mut session = Session::new(true);
    let base = session.base();
    let body = records(|w| {
        write::memset(w, 0, 4, 4, 1, 0, 4, KNOWN);
        write::read(w, base, 0, 8, 1, KNOWN, 0);
    });
    let told = session.results(&records(|w| {
        template(w, 0, &[(8, 8), (40, 4), (56 + 44, 4)], &body);
        write::repeat(w, 0, 3, false, &[affine(base, 4), affine(5, 1), affine(1, 1)].concat());
        write::repeat(w, 0, 1, true, &[]);
    }));
    let slots: Vec<u32> = told.iter().map(|(slot, _, _)| *slot).collect();
    assert_eq!(slots, [1, 2, 3, 4], "the fourth goes on where the loop has ended");
    assert_eq!(told[3].2, [5, 0, 0, 0, 6, 0, 0, 0]);
    assert_eq!(session.fake.asked, ["end"], "nothing is asked for");
}

#[test]
fn a_device_is_asked_for_long_loops_and_what_it_leaves_is_walked() {
    let mut session = Session::new(true);
    session.fake.paths = Some(vec![vec![0], vec![1, 0, 0], vec![1, 1, 0], vec![2]]);
    let error = CudaError { code: 4, message: "no".into(), sticky: false };
    session.fake.stops = vec![
        Stop { iterations: 1, step: None, error: None, again: false },
        Stop { iterations: 290, step: Some(1), error: Some(error), again: true },
        Stop { iterations: 5, step: Some(3), error: None, again: true },
    ];
    let inner = fence();
    let body = records(|w| {
        write::fence(w, 0);
        write::repeat(w, 0, 2, false, &affine(1000, 1));
        write::fence(w, 0);
    });
    let told = session.results(&records(|w| {
        template(w, 0, &[(FENCE_SLOT, 4)], &inner);
        template(w, 1, &[(8, 4), (16 + 48 + 8, 4)], &body);
        write::repeat(w, 1, 300, false, &[affine(0, 1), affine(2000, 1)].concat());
    }));
    let slots: Vec<(u32, i32)> = told.iter().map(|(slot, error, _)| (*slot, *error)).collect();
    let walked = |k: u32| [(k, 0), (1000, 0), (1001, 0), (2000 + k, 0)];
    let mut expected = vec![(2005, 0), (1000, 4), (1001, 0), (2296, 0)];
    (298..300).for_each(|k| expected.extend(walked(k)));
    assert_eq!(slots, expected);
    assert_eq!(session.fake.asked, ["plan", "repeat", "repeat", "repeat", "end"]);
    session.results(&records(|w| write::device_reset(w, 5)));
    assert_eq!(session.replay.plans(1).count(), 0);
}

#[test]
fn no_device_is_asked_for_loops_that_allocate() {
    let mut session = Session::new(true);
    session.fake.paths = Some(vec![vec![0], vec![1]]);
    let place = session.base() + (1 << 16);
    let allocating = records(|w| {
        write::allocate(w, place, 256);
        write::free(w, place);
    });
    let outer = records(|w| write::repeat(w, 0, 300, false, &[]));
    session.results(&records(|w| {
        template(w, 0, &[], &allocating);
        template(w, 1, &[], &outer);
        write::repeat(w, 0, 300, false, &[]);
        write::repeat(w, 1, 3, false, &[]);
    }));
    let asked = &session.fake.asked;
    assert!(!asked.contains(&"plan"), "neither for the loop nor for one around it");
    assert_eq!(asked.iter().filter(|what| **what == "ALLOCATE").count(), 300 * 4, "each is made");
}

#[test]
fn a_condition_chooses_until_it_is_done() {
    let mut session = Session::new(true);
    let body = |slot| records(|w| write::fence(w, slot));
    let tape = |kind| {
        records(|w| {
            template(w, 0, &[], &body(70));
            template(w, 1, &[], &body(71));
            write::conditional(w, 0, KNOWN, kind, &[0; 4]);
        })
    };
    let slots = |told: Vec<(u32, i32, Vec<u8>)>| told.iter().map(|(slot, _, _)| *slot).collect::<Vec<u32>>();
    assert_eq!(slots(session.results(&tape(1))), [70, 71], "while");
    assert_eq!(slots(session.results(&tape(0))), [70], "if");
    let within = records(|w| write::conditional(w, 0, KNOWN, 1, &[0; 4]));
    let endless = records(|w| {
        template(w, 0, &[], &within);
        write::conditional(w, 0, KNOWN, 1, &[0; 4]);
    });
    assert_eq!(session.submit(&endless).unwrap_err(), "CONDITIONALs are nested more than 8 deep");
}

#[test]
fn launches_to_come_are_told_as_far_as_they_are_known() {
    let mut session = Session::new(false);
    session.fake.wants_to_know = true;
    let one = records(|w| launch(w, 1));
    session
        .submit(&records(|w| {
            template(w, 0, &[(48, 8)], &one);
            template(w, 1, &[], &records(|w| write::repeat(w, 0, 700, false, &affine(0, 1))));
            write::repeat(w, 1, 1, false, &[]);
        }))
        .unwrap();
    let first: Vec<u64> = session.fake.expected.iter().map(|one| super::template::u64_at(one, 0)).collect();
    assert_eq!(first.last(), Some(&699), "the inner loop looks for itself");
    for cut in 0..2 * one.len() {
        assert_eq!(upcoming::of_message(&one.repeat(2)[..cut]).len(), cut / one.len());
    }
    let mut lying = one.clone();
    lying[44..48].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    assert!(upcoming::of_message(&lying).is_empty());
}

#[test]
fn rules_are_named() {
    let one = |content: &[u8], holes| Template::read(0, holes, content, VERSION, missing).unwrap_err();
    assert_eq!(one(&[], 0), "template 0 has a body of 0 bytes");
    assert_eq!(one(&fence(), 3), "template 0 of 16 bytes has 3 holes");
    assert_eq!(one(&[entry(0, 4), fence()].concat(), 1), "hole 0 at 0 lies where FENCE may have none");
    assert_eq!(one(&[entry(8, 3), fence()].concat(), 1), "hole 0: 3 bytes at 8");
    let reset = records(|w| write::device_reset(w, 1));
    assert_eq!(one(&reset, 0), "DEVICE_RESET (flags 0x0) has no place in a template");
    let mut session = Session::new(true);
    session.submit(&records(|w| template(w, 0, &[(FENCE_SLOT + 4, 4)], &fence()))).unwrap();
    let refused = session.submit(&records(|w| write::repeat(w, 0, 2, false, &affine(0, 1)))).unwrap_err();
    assert!(refused.contains("reserved is not 0"), "a hole may not put anything there: {refused}");
    let mut session = Session::new(true);
    let again = records(|w| write::repeat(w, 3, 2, true, &[]));
    assert_eq!(session.submit(&again).unwrap_err(), "template 3 was not given");
}
