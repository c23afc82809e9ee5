use super::*;

#[test]
fn values_without_a_pattern_are_taken_by_comparing_the_rest() {
    let launch = |function: u32, value: u64| {
        let mut writer = tape::Writer::new();
        let arguments = value.to_le_bytes();
        tape::operations::launch(&mut writer, function, 1, [1; 3], [1; 3], 0, false, 0, &arguments);
        writer.as_slice().to_vec()
    };
    let record = |value: u64| launch(7, value);
    let mut body = Body::new();
    assert!(body.push(&record(0), 1, None));
    let body = body.widened(0, &record(u64::MAX), &[]).expect("a hole");
    let mut run = Run::new(1, 0, Arc::new(body), false, &[]);
    let values: Vec<u64> = (0..160_u64).map(|k| (k * k).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut quick = 0;
    for &value in &values {
        if run.take_predicted(&record(value)) {
            quick += 1;
        } else {
            assert!(matches!(run.take(&record(value), 1, Vec::new), Verdict::Taken));
        }
    }
    assert_eq!(quick, 160 - 160 / 16 - 5, "all but the first and those at which columns are looked at");
    assert!(!run.take_predicted(&launch(8, 5)), "another kernel");
    let mut found = Vec::new();
    for (k, &value) in values.iter().enumerate() {
        run.expand(0, k as u64, &mut found);
        assert_eq!(found, record(value), "iteration {k}");
    }
    assert_eq!(run.value_bytes, 8 * (160 - 2), "but of the first two, which were affine");
}
