//! Landlock: the folders that a process still reaches, no network, no signals and abstract sockets of others.

use crate::Failed;
use landlock::{
    path_beneath_rules, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, ABI,
};
use std::path::PathBuf;

/// The newest rules that are asked for; an older kernel gives those that it has.
const WANTED: ABI = ABI::V6;

/// How much of it this kernel enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Wholly,
    /// An older kernel: files are restricted, some of the rest is not.
    Partly,
    /// The kernel has no Landlock, or it is switched off.
    Not,
}

/// From now on the calling thread, and those that it starts, open only what lies in these folders (or is named there
/// itself), and only to read it. Paths that do not exist are passed over. Descriptors that
/// are open stay as they are. TCP connections, and signals and abstract sockets of other processes, are out of reach.
pub fn restrict_files(read: &[PathBuf]) -> Result<Held, Failed> {
    let failed = |error: landlock::RulesetError| Failed(format!("Landlock: {error}"));
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))
        .and_then(|set| set.handle_access(AccessNet::from_all(WANTED)))
        .and_then(|set| set.scope(Scope::from_all(WANTED)))
        .and_then(Ruleset::create)
        .and_then(|set| set.add_rules(path_beneath_rules(read, reading)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(failed)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Held::Wholly,
        RulesetStatus::PartiallyEnforced => Held::Partly,
        RulesetStatus::NotEnforced => Held::Not,
    })
}
