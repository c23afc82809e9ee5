//! Who gets a place on the device, and who loses one. Pure: no clock, no input, no output.
//!
//! Service is counted in *virtual time*: nanoseconds on the device divided by the session's weight. The session with the
//! least comes first. One that comes back from idleness starts at the least virtual time of those that are active, less
//! `CREDIT`: idleness saves up no more than that.

/// A session keeps its place until it is so far ahead of one that waits, in virtual time.
pub const SLICE: f64 = 4e6;
/// What a session that comes back is ahead of the others: more than a slice, so that it need not wait for the end of theirs.
pub const CREDIT: f64 = 2.0 * SLICE;
/// Priorities are 0 to 9.
pub const PRIORITIES: usize = 10;

/// What a session has of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// No place.
    Nothing,
    /// A place that it does not use.
    Idle,
    /// A place, and it works.
    Works,
    /// A place that it was asked to leave, and has not left.
    Leaves,
}

/// A session, as the policy sees it.
#[derive(Clone, Debug)]
pub struct Standing {
    pub priority: u8,
    pub virtual_time: f64,
    /// It waits for a place.
    pub waits: bool,
    pub has: Has,
    /// It has not used up its share of the time.
    pub may: bool,
    /// It works where it gives way to all others of the machine: they need not wait for the end of its block.
    pub yields: bool,
}

/// By their places in the slice.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Are to leave: one that is idle or yields has left with that.
    pub leave: Vec<usize>,
    /// Get a place, in this order.
    pub enter: Vec<usize>,
    /// Were asked to leave, have not done so, and keep their places.
    pub stay: Vec<usize>,
}

/// What is to happen now.
#[must_use]
pub fn decide(standings: &[Standing], places: usize) -> Decision {
    let mut decision = Decision::default();
    let mut has: Vec<Has> = standings.iter().map(|each| each.has).collect();
    for (index, each) in standings.iter().enumerate() {
        if !each.may && matches!(each.has, Has::Idle | Has::Works) {
            decision.leave.push(index);
            has[index] = if each.has == Has::Idle || each.yields { Has::Nothing } else { Has::Leaves };
        }
    }
    let yields = |at: usize, to: usize, has: &[Has]| {
        has[at] == Has::Works && standings[at].yields && goes_before(&standings[to], &standings[at])
    };
    let mut free = places.saturating_sub(has.iter().filter(|&&each| each != Has::Nothing).count());
    let mut promised = has.iter().filter(|&&each| each == Has::Leaves).count();
    let mut hurries: Vec<usize> = Vec::new();
    let mut waiting: Vec<usize> = (0..standings.len()).filter(|&at| standings[at].waits && standings[at].may).collect();
    waiting.sort_by(|&one, &two| first(&standings[one], &standings[two]));
    for index in waiting {
        if free > 0 {
            free -= 1;
            decision.enter.push(index);
        } else if promised > 0 {
            promised -= 1;
            hurries.push(index);
        } else if let Some(at_once) =
            last(standings, |at| has[at] == Has::Idle).or_else(|| last(standings, |at| yields(at, index, &has)))
        {
            has[at_once] = Has::Nothing;
            decision.leave.push(at_once);
            decision.enter.push(index);
        } else if let Some(other) = last(standings, |at| has[at] == Has::Works) {
            if !goes_before(&standings[index], &standings[other]) {
                break; // those that come later are behind this one
            }
            has[other] = Has::Leaves;
            decision.leave.push(other);
            hurries.push(index);
        } else {
            break;
        }
    }
    // A block may take long: each one that has to give way is asked, and who first ends a block leaves.
    let gives_way = |at: usize| hurries.iter().any(|&index| goes_before(&standings[index], &standings[at]));
    for at in 0..standings.len() {
        match has[at] {
            Has::Works if gives_way(at) => decision.leave.push(at),
            Has::Leaves if standings[at].has == Has::Leaves && standings[at].may && !gives_way(at) => {
                decision.stay.push(at);
            }
            _ => {}
        }
    }
    decision
}

/// Which of two sessions that wait comes first.
fn first(one: &Standing, two: &Standing) -> std::cmp::Ordering {
    two.priority.cmp(&one.priority).then(one.virtual_time.total_cmp(&two.virtual_time))
}

/// The one of these that loses its place first.
fn last(standings: &[Standing], of: impl Fn(usize) -> bool) -> Option<usize> {
    (0..standings.len()).filter(|&at| of(at)).max_by(|&one, &two| first(&standings[one], &standings[two]))
}

/// Whether one that waits takes the place of one that works.
fn goes_before(waits: &Standing, works: &Standing) -> bool {
    waits.priority > works.priority
        || (waits.priority == works.priority && works.virtual_time - waits.virtual_time >= SLICE)
}

/// The virtual time of a session that becomes active, where the least of the active ones is `least`.
#[must_use]
pub fn arrives(virtual_time: f64, least: f64) -> f64 {
    virtual_time.max(least - CREDIT)
}

#[cfg(test)]
mod tests;
