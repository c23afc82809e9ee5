; A launch that helpers take part in, from the thread that launches (helpers.py): wakes them, does its own share, and waits for those that have begun theirs.

declare i32 @sem_wait(ptr)
declare i32 @sem_trywait(ptr)
declare i32 @sem_post(ptr)

define i32 @farlane_run(ptr %lead, ptr %unused) {
entry:
  %boxes = load ptr, ptr %lead
  %count.p = getelementptr %Lead, ptr %lead, i32 0, i32 Lead.count
  %count = load i64, ptr %count.p
  %run.p = getelementptr %Lead, ptr %lead, i32 0, i32 Lead.run
  %run = load ptr, ptr %run.p
  %launch.p = getelementptr %Lead, ptr %lead, i32 0, i32 Lead.launch
  %launch = load ptr, ptr %launch.p
  %worker.p = getelementptr %Lead, ptr %lead, i32 0, i32 Lead.worker
  %worker = load ptr, ptr %worker.p
  %parts.p = getelementptr %Lead, ptr %lead, i32 0, i32 Lead.parts
  %parts = load i32, ptr %parts.p
  %wakes = trunc i32 %parts to i1
  %waits = icmp uge i32 %parts, 2
  br i1 %wakes, label %wake, label %share
wake:
  %w = phi i64 [ 0, %entry ], [ %w.next, %post ]
  %w.more = icmp ult i64 %w, %count
  br i1 %w.more, label %post, label %share
post:
  %w.at = getelementptr ptr, ptr %boxes, i64 %w
  %w.box = load ptr, ptr %w.at
  %w.state.p = getelementptr %Box, ptr %w.box, i32 0, i32 Box.state
  store atomic i32 1, ptr %w.state.p release, align 4
  %posted = call i32 @sem_post(ptr %w.box)
  %w.next = add i64 %w, 1
  br label %wake
share:
  %shares = icmp ne ptr %run, null
  br i1 %shares, label %own, label %join.test
own:
  %own.status = call i32 %run(ptr %launch, ptr %worker)
  br label %join.test
join.test:
  %status = phi i32 [ 0, %share ], [ %own.status, %own ]
  br i1 %waits, label %join, label %done
join:
  %j = phi i64 [ 0, %join.test ], [ %j.next, %over ]
  %j.more = icmp ult i64 %j, %count
  br i1 %j.more, label %look, label %done
look:
  %j.at = getelementptr ptr, ptr %boxes, i64 %j
  %j.box = load ptr, ptr %j.at
  %over.p = getelementptr %Box, ptr %j.box, i32 0, i32 Box.over
  %j.state.p = getelementptr %Box, ptr %j.box, i32 0, i32 Box.state
  %back = cmpxchg ptr %j.state.p, i32 1, i32 0 acq_rel monotonic
  %not.begun = extractvalue { i32, i1 } %back, 1
  br i1 %not.begun, label %over, label %spin
spin:
  ; Threads that share a launch are through at about the same time: to sleep and be woken up takes longer than that.
  %spun = phi i32 [ 0, %look ], [ %spun.next, %spin.on ]
  %tried = call i32 @sem_trywait(ptr %over.p)
  %there = icmp eq i32 %tried, 0
  br i1 %there, label %over, label %spin.on
spin.on:
  %spun.next = add i32 %spun, 1
  %patient = icmp ult i32 %spun.next, 4096
  br i1 %patient, label %spin, label %wait
wait:
  %waited = call i32 @sem_wait(ptr %over.p)
  %again = icmp ne i32 %waited, 0 ; a signal
  br i1 %again, label %wait, label %over
over:
  %j.next = add i64 %j, 1
  br label %join
done:
  ret i32 %status
}
