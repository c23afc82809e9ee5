//! Which functions are redirected, on symbol tables made here: whole, damaged, and of programs with functions named
//! like the runtime's.

use farlane_redirect::plan::{Library, Major, Plan, Refusal};
use farlane_redirect::symbols::Symbols;

const REQUIRED: [&str; 8] = [
    "__cudaRegisterFatBinary",
    "__cudaRegisterFunction",
    "__cudaUnregisterFatBinary",
    "__cudaPushCallConfiguration",
    "cudaGetExportTable",
    "cudaGetLastError",
    "cudaLaunchKernel",
    "cudaMalloc",
];

/// Has every function of `REQUIRED`, and what CUDA 12 alone has.
struct Both;

impl Library for Both {
    fn present(&self, _: Major) -> bool {
        true
    }

    fn find(&self, major: Major, name: &[u8]) -> Option<(usize, usize)> {
        let number = REQUIRED.iter().position(|known| known.as_bytes() == name)?;
        Some((number, number + if major == Major::Twelve { 12_000 } else { 13_000 }))
    }
}

struct None;

impl Library for None {
    fn present(&self, _: Major) -> bool {
        false
    }

    fn find(&self, _: Major, _: &[u8]) -> Option<(usize, usize)> {
        Option::None
    }
}

/// The version, and where each function leads.
type Planned = Option<(Major, Vec<Option<usize>>)>;

#[derive(Default)]
struct Table {
    entries: Vec<u8>,
    strings: Vec<u8>,
}

impl Table {
    fn add(&mut self, name: &str, address: u64, size: u64) {
        self.entries.extend((self.strings.len() as u32).to_le_bytes());
        self.entries.extend([2, 2, 1, 0]); // a hidden function in section 1
        self.entries.extend(address.to_le_bytes());
        self.entries.extend(size.to_le_bytes());
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
    }

    /// A runtime of those functions, its own before and behind them.
    fn runtime(names: &[&str]) -> Table {
        let mut table = Table::default();
        table.add("main", 0x100, 64);
        table.add("libcudart_static_aa", 0x1000, 64);
        for (index, name) in names.iter().enumerate() {
            table.add(name, 0x2000 + 0x100 * index as u64, 64);
        }
        table.add("libcudart_static_bb", 0x9000, 64);
        table
    }

    fn plan(&self, library: &dyn Library) -> Result<Planned, Refusal> {
        let mut plan = Box::new(Plan::default());
        let major = plan.make(Symbols::new(&self.entries, &self.strings), library)?;
        Ok(major.map(|major| (major, plan.functions().iter().map(|function| function.target).collect())))
    }
}

#[test]
fn all_functions_lead_to_those_of_their_version() {
    let (major, targets) = Table::runtime(&REQUIRED).plan(&Both).unwrap().unwrap();
    assert_eq!((major, targets), (Major::Thirteen, (13_000..13_008).map(Some).collect()));
    let twelve = [&REQUIRED[..], &["cudaLaunchCooperativeKernelMultiDevice"]].concat();
    let (major, targets) = Table::runtime(&twelve).plan(&Both).unwrap().unwrap();
    // The last one is the runtime's by its neighbours, and the library does not have it.
    assert_eq!((major, targets[0], targets[8]), (Major::Twelve, Some(12_000), Option::None));
}

#[test]
fn functions_of_the_program_are_its_own() {
    let mut table = Table::runtime(&REQUIRED);
    table.add("cudaCheck", 0x200, 64);
    assert_eq!(table.plan(&Both).unwrap().unwrap().1.len(), REQUIRED.len());
    let mut own = Table::default();
    own.add("cudaMalloc", 0x200, 64);
    assert_eq!(own.plan(&Both), Ok(Option::None));
}

#[test]
fn what_cannot_be_redirected_whole_is_left_alone() {
    assert_eq!(Table::runtime(&REQUIRED[1..]).plan(&Both), Err(Refusal::Incomplete));
    assert_eq!(Table::runtime(&REQUIRED).plan(&None), Err(Refusal::NoLibrary(Major::Thirteen)));
    let old = [&REQUIRED[..], &["cudaBindTexture"]].concat();
    assert_eq!(Table::runtime(&old).plan(&Both), Err(Refusal::Old));
    let mut twice = Table::runtime(&REQUIRED);
    twice.add("cudaMalloc", 0x300, 64);
    assert_eq!(twice.plan(&Both), Err(Refusal::Unexpected));
    let mut without_locals = Table::default();
    without_locals.add("cudaGetExportTable", 0x2000, 64);
    assert_eq!(without_locals.plan(&Both), Err(Refusal::Incomplete));
    let mut short = Table::runtime(&REQUIRED[..7]);
    short.add("cudaMalloc", 0x2a00, 3);
    short.add("libcudart_static_cc", 0x2a08, 64);
    assert_eq!(short.plan(&Both), Err(Refusal::Unexpected));
}

#[test]
fn damaged_tables_do_no_harm() {
    let whole = Table::runtime(&REQUIRED);
    for length in 0..whole.entries.len() {
        let cut = Table { entries: whole.entries[..length].to_vec(), strings: whole.strings.clone() };
        let _ = cut.plan(&Both);
    }
    for length in 0..whole.strings.len() {
        let cut = Table { entries: whole.entries.clone(), strings: whole.strings[..length].to_vec() };
        // A name that the cut has lost is no function's.
        assert!(cut.plan(&Both).is_err() || length + 25 > whole.strings.len() || cut.plan(&Both) == Ok(Option::None));
    }
    for at in 0..whole.entries.len() {
        for value in [0, 0xff, 0x80] {
            let mut entries = whole.entries.clone();
            entries[at] = value;
            let _ = Table { entries, strings: whole.strings.clone() }.plan(&Both);
        }
    }
}
