; Barriers of a block: who arrives, who waits, and who is released.

; Counts lanes as arrived at barrier %id; %expected = threads, 0 = all of the block. %true: lanes whose predicate holds (bar.red).
define internal void @farlane_arrive(ptr %warp, i32 %id, i32 %expected, i32 %lanes, i32 %true) noinline {
  %worker.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.worker
  %worker = load ptr, ptr %worker.p
  %barriers.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.barriers
  %barriers = load ptr, ptr %barriers.p
  %slot = and i32 %id, 15
  %barrier = getelementptr %Barrier, ptr %barriers, i32 %slot
  %arrived = load i32, ptr %barrier
  %count = call i32 @llvm.ctpop.i32(i32 %lanes)
  %sum = add i32 %arrived, %count
  store i32 %sum, ptr %barrier
  %expected.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 Barrier.expected
  store i32 %expected, ptr %expected.p
  %true.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 Barrier.holding
  %true.old = load i32, ptr %true.p
  %true.count = call i32 @llvm.ctpop.i32(i32 %true)
  %true.sum = add i32 %true.old, %true.count
  store i32 %true.sum, ptr %true.p
  ret void
}

; Waits until one of the barriers in the set %ids completes; returns the set of those that did.
define internal i32 @farlane_wait(ptr %warp, i32 %ids) noinline {
  %ids.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.barriers
  store i32 %ids, ptr %ids.p
  %released.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.released
  store i32 0, ptr %released.p
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  store i32 2, ptr %state.p
  call void @farlane_pass(ptr %warp)
  %released = load i32, ptr %released.p
  ret i32 %released
}

; Lets the other warps of the block run (spin loops, nanosleep).
define internal void @farlane_yield(ptr %warp) noinline {
  call void @farlane_pass(ptr %warp)
  ret void
}

; bar.red results of a completed barrier: low half = lanes whose predicate held, high half = lanes that arrived.
define internal i64 @farlane_reduced(ptr %warp, i32 %id) {
  %worker.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.worker
  %worker = load ptr, ptr %worker.p
  %barriers.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.barriers
  %barriers = load ptr, ptr %barriers.p
  %slot = and i32 %id, 15
  %true.p = getelementptr %Barrier, ptr %barriers, i32 %slot, i32 Barrier.held
  %true = load i32, ptr %true.p
  %count.p = getelementptr %Barrier, ptr %barriers, i32 %slot, i32 Barrier.count
  %count = load i32, ptr %count.p
  %true64 = zext i32 %true to i64
  %count64 = zext i32 %count to i64
  %high = shl i64 %count64, 32
  %both = or i64 %high, %true64
  ret i64 %both
}

; Lanes that leave the kernel: barriers of the whole block no longer wait for them.
define internal void @farlane_leave(ptr %warp, i32 %lanes) {
  %worker.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.worker
  %worker = load ptr, ptr %worker.p
  %live.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.live
  %live = load i32, ptr %live.p
  %count = call i32 @llvm.ctpop.i32(i32 %lanes)
  %left = sub i32 %live, %count
  store i32 %left, ptr %live.p
  call void @farlane_cluster_leave(ptr %worker, ptr %warp, i32 %lanes)
  %idle.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.idle
  store i32 0, ptr %idle.p
  ret void
}

; Completes barriers; returns whether a warp became ready.
define internal i1 @farlane_release(ptr %worker) {
entry:
  %barriers.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.barriers
  %barriers = load ptr, ptr %barriers.p
  %live.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.live
  %live = load i32, ptr %live.p
  br label %loop
loop:
  %id = phi i32 [ 0, %entry ], [ %id.next, %next ]
  %set = phi i32 [ 0, %entry ], [ %set.next, %next ]
  %barrier = getelementptr %Barrier, ptr %barriers, i32 %id
  %arrived = load i32, ptr %barrier
  %some = icmp ne i32 %arrived, 0
  br i1 %some, label %test, label %next
test:
  %expected.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 Barrier.expected
  %expected.raw = load i32, ptr %expected.p
  %all = icmp eq i32 %expected.raw, 0
  %expected = select i1 %all, i32 %live, i32 %expected.raw
  %full = icmp uge i32 %arrived, %expected
  br i1 %full, label %complete, label %next
complete:
  %true.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 Barrier.holding
  %true = load i32, ptr %true.p
  %result.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 Barrier.held
  store i32 %true, ptr %result.p
  %count.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 Barrier.count
  store i32 %arrived, ptr %count.p
  store i32 0, ptr %barrier
  store i32 0, ptr %true.p
  %idle.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.idle
  store i32 0, ptr %idle.p
  call void @farlane_watch_block(ptr %worker)
  %bit = shl i32 1, %id
  %set.with = or i32 %set, %bit
  br label %next
next:
  %set.next = phi i32 [ %set, %loop ], [ %set, %test ], [ %set.with, %complete ]
  %id.next = add i32 %id, 1
  %count = load i32, ptr @farlane_barriers
  %more = icmp ult i32 %id.next, %count
  br i1 %more, label %loop, label %wake
wake:
  %none = icmp eq i32 %set.next, 0
  br i1 %none, label %no, label %warps.start
no:
  ret i1 false
warps.start:
  %warps.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.warps
  %warps = load ptr, ptr %warps.p
  %warp.count = load i32, ptr @farlane_warps
  br label %warps.loop
warps.loop:
  %w = phi i32 [ 0, %warps.start ], [ %w.next, %warps.next ]
  %any = phi i1 [ false, %warps.start ], [ %any.next, %warps.next ]
  %warp = getelementptr %WarpState, ptr %warps, i32 %w
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  %state = load i32, ptr %state.p
  %waiting = icmp eq i32 %state, 2
  br i1 %waiting, label %match, label %warps.next
match:
  %ids.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.barriers
  %ids = load i32, ptr %ids.p
  %hit = and i32 %ids, %set.next
  %is.hit = icmp ne i32 %hit, 0
  br i1 %is.hit, label %ready, label %warps.next
ready:
  %released.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.released
  store i32 %hit, ptr %released.p
  store i32 1, ptr %state.p
  br label %warps.next
warps.next:
  %any.next = phi i1 [ %any, %warps.loop ], [ %any, %match ], [ true, %ready ]
  %w.next = add i32 %w, 1
  %w.more = icmp ult i32 %w.next, %warp.count
  br i1 %w.more, label %warps.loop, label %done
done:
  ret i1 %any.next
}
