use super::{arrives, decide, Decision, Has, Standing, CREDIT, SLICE};

fn standing(priority: u8, virtual_time: f64, waits: bool, has: Has) -> Standing {
    Standing { priority, virtual_time, waits, has, may: true, yields: false }
}

fn waits(virtual_time: f64) -> Standing {
    standing(0, virtual_time, true, Has::Nothing)
}

fn works(virtual_time: f64) -> Standing {
    standing(0, virtual_time, false, Has::Works)
}

fn decision(leave: &[usize], enter: &[usize]) -> Decision {
    Decision { leave: leave.to_vec(), enter: enter.to_vec(), stay: Vec::new() }
}

#[test]
fn free_places_go_to_those_with_the_least_service() {
    let all = [waits(3.0), waits(1.0), waits(2.0)];
    assert_eq!(decide(&all, 2), decision(&[], &[1, 2]));
}

#[test]
fn a_higher_priority_comes_before_less_service() {
    let all = [waits(0.0), standing(1, 9e9, true, Has::Nothing)];
    assert_eq!(decide(&all, 1), decision(&[], &[1]));
}

#[test]
fn an_idle_place_is_taken_at_once() {
    let all = [standing(9, 0.0, false, Has::Idle), waits(5.0)];
    assert_eq!(decide(&all, 1), decision(&[0], &[1]));
}

#[test]
fn one_that_works_keeps_its_place_for_a_slice() {
    assert_eq!(decide(&[works(SLICE - 1.0), waits(0.0)], 1), decision(&[], &[]));
    assert_eq!(decide(&[works(SLICE), waits(0.0)], 1), decision(&[0], &[]));
}

#[test]
fn a_higher_priority_takes_the_place_of_one_that_works() {
    let all = [works(0.0), standing(0, 5.0, false, Has::Works), standing(2, 9e9, true, Has::Nothing)];
    assert_eq!(decide(&all, 2), decision(&[1, 0], &[]));
    let lower = [standing(2, 9e9, false, Has::Works), waits(0.0)];
    assert_eq!(decide(&lower, 1), decision(&[], &[]));
}

#[test]
fn all_that_have_to_give_way_are_asked_and_the_first_that_leaves_is_enough() {
    let all = [works(SLICE), works(2.0 * SLICE), works(SLICE - 1.0), waits(0.0)];
    assert_eq!(decide(&all, 3), decision(&[1, 0], &[]));
    let leaves = |virtual_time| standing(0, virtual_time, false, Has::Leaves);
    let asked = [leaves(SLICE), leaves(2.0 * SLICE), works(SLICE - 1.0), waits(0.0)];
    assert_eq!(decide(&asked, 3), decision(&[], &[]));
    let left = [waits(SLICE), leaves(1.5 * SLICE), works(SLICE - 1.0), waits(0.0)];
    let stays = Decision { stay: vec![1], ..decision(&[], &[3]) };
    assert_eq!(decide(&left, 3), stays);
}

#[test]
fn the_place_of_one_that_yields_is_taken_at_once() {
    let yields = |virtual_time| Standing { yields: true, ..works(virtual_time) };
    assert_eq!(decide(&[yields(SLICE), waits(0.0)], 1), decision(&[0], &[1]));
    assert_eq!(decide(&[yields(SLICE - 1.0), waits(0.0)], 1), decision(&[], &[]));
    assert_eq!(decide(&[yields(SLICE), works(2.0 * SLICE), waits(0.0)], 2), decision(&[0], &[2]));
    assert_eq!(decide(&[works(SLICE), yields(2.0 * SLICE), waits(0.0)], 2), decision(&[1], &[2]));
    let over = Standing { may: false, ..yields(0.0) };
    assert_eq!(decide(&[over, waits(5.0)], 1), decision(&[0], &[1]));
}

#[test]
fn one_that_has_used_up_its_share_does_not_stay() {
    let all = [Standing { may: false, ..standing(0, 0.0, false, Has::Leaves) }, waits(5.0)];
    assert_eq!(decide(&all, 1), decision(&[], &[]));
}

#[test]
fn one_that_has_used_up_its_share_leaves_and_gets_nothing() {
    let over = |has, waits| Standing { may: false, ..standing(0, 0.0, waits, has) };
    assert_eq!(decide(&[over(Has::Works, false), over(Has::Nothing, true)], 4), decision(&[0], &[]));
    assert_eq!(decide(&[over(Has::Idle, false), waits(0.0)], 1), decision(&[0], &[1]));
}

#[test]
fn idleness_saves_up_no_more_than_the_credit() {
    assert!((arrives(0.0, 100.0 * CREDIT) - 99.0 * CREDIT).abs() < 1.0);
    assert!((arrives(7.0 * CREDIT, CREDIT) - 7.0 * CREDIT).abs() < 1.0);
}

/// Sessions that always have work, on a device that stops at once; how long each one has had it.
fn simulate(weights: &[f64], places: usize, rounds: usize) -> Vec<f64> {
    let step = SLICE / 8.0;
    let mut all: Vec<Standing> = weights.iter().map(|_| waits(0.0)).collect();
    let mut served = vec![0.0; weights.len()];
    for _ in 0..rounds {
        let Decision { leave, enter, .. } = decide(&all, places);
        for at in leave {
            all[at].has = Has::Nothing;
            all[at].waits = true;
        }
        for at in enter {
            all[at].has = Has::Works;
            all[at].waits = false;
        }
        for at in 0..all.len() {
            if all[at].has == Has::Works {
                served[at] += step;
                all[at].virtual_time += step / weights[at];
            }
        }
    }
    served
}

#[test]
fn equal_weights_get_equal_service() {
    let served = simulate(&[1.0; 64], 2, 64 * 200);
    let (least, most) = served.iter().fold((f64::MAX, 0.0f64), |(low, high), &one| (low.min(one), high.max(one)));
    assert!(most / least < 1.1, "{least} {most}");
}

#[test]
fn service_follows_weights() {
    let weights = [1.0, 2.0, 4.0, 1.0, 2.0, 4.0];
    let served = simulate(&weights, 2, 60_000);
    let total: f64 = served.iter().sum();
    for (one, weight) in served.iter().zip(weights) {
        assert!((one / total * 14.0 / weight - 1.0).abs() < 0.05, "{served:?}");
    }
}
