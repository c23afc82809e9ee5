; The scheduler of blocks: rounds over the warps of a block, until all have ended or none can go on; and the entry of a launch.

; One block of a kernel with barriers: every warp on a fiber of its own, in turn. Returns the worker's status.
define internal i32 @farlane_block(ptr %worker, ptr %launch, i64 %block) {
entry:
  call void @farlane_block_start(ptr %worker, ptr %launch, i64 %block)
  br label %round
round:
  %state = call i32 @farlane_block_round(ptr %worker, ptr %launch)
  switch i32 %state, label %over [ i32 3, label %round
                                   i32 4, label %held ]
held:
  %complete = call i1 @farlane_cluster_complete(ptr %worker, i64 1)
  br i1 %complete, label %round, label %stuck
stuck:
  %fault = call i32 @farlane_block_stuck(ptr %worker)
  ret i32 %fault
over:
  ret i32 %state
}

; Makes the fibers of a block's warps ready.
define internal void @farlane_block_start(ptr %worker, ptr %launch, i64 %block) {
entry:
  %warps.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.warps
  %warps = load ptr, ptr %warps.p
  %warp.count = load i32, ptr @farlane_warps
  %threads = load i32, ptr @farlane_threads
  %live.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.live
  store i32 %threads, ptr %live.p
  %arrived.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.arrived
  store i32 0, ptr %arrived.p
  %idle.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.idle
  store i32 0, ptr %idle.p
  %barriers.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.barriers
  %barriers = load ptr, ptr %barriers.p
  call void @llvm.memset.p0.i64(ptr %barriers, i8 0, i64 384, i1 false)
  %coordinates = call [3 x i32] @farlane_coordinates(ptr %launch, i64 %block)
  call void @farlane_watch_block(ptr %worker)
  br label %setup
setup:
  %s = phi i32 [ 0, %entry ], [ %s.next, %setup ]
  %setup.warp = getelementptr %WarpState, ptr %warps, i32 %s
  call void @farlane_warp_start(ptr %worker, ptr %launch, ptr %setup.warp, i32 %s, [3 x i32] %coordinates)
  %s.next = add i32 %s, 1
  %warp.group.warps = load i32, ptr @farlane_group_warps
  %alone = icmp eq i32 %warp.group.warps, 0
  %s.more.1 = icmp ult i32 %s.next, %warp.count
  %s.more = and i1 %s.more.1, %alone
  br i1 %s.more, label %setup, label %rest
rest:
  ; The first warp runs for its warp group. The others are started where it ends early (farlane_group_fiber).
  %r = phi i32 [ %s.next, %setup ], [ %r.next, %idle ]
  %r.more = icmp ult i32 %r, %warp.count
  br i1 %r.more, label %idle, label %started
idle:
  %idle.state.p = getelementptr %WarpState, ptr %warps, i32 %r, i32 WarpState.state
  store i32 0, ptr %idle.state.p
  %r.next = add i32 %r, 1
  br label %rest
started:
  ret void
}

; A warp's state, and a stack on which it begins.
define internal void @farlane_warp_start(ptr %worker, ptr %launch, ptr %warp, i32 %index, [3 x i32] %block) {
  call void @farlane_setup(ptr %worker, ptr %launch, ptr %warp, i32 %index, [3 x i32] %block)
  %index64 = zext i32 %index to i64
  %sp = call i64 @farlane_prepare(ptr %worker, i64 %index64, ptr @farlane_warp_main, ptr %warp)
  %sp.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.stack
  store i64 %sp, ptr %sp.p
  ret void
}

; Lets every warp of a started block have a turn. 0 the block is done, 1 fault, 2 aborted, 3 it goes on, 4 it waits for its cluster.
define internal i32 @farlane_block_round(ptr %worker, ptr %launch) {
round:
  %warps.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.warps
  %warps = load ptr, ptr %warps.p
  %warp.count = load i32, ptr @farlane_warps
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  %last.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.last
  br label %turn
turn:
  %w = phi i32 [ 0, %round ], [ %w.next, %turn.next ]
  %warp = getelementptr %WarpState, ptr %warps, i32 %w
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  %state = load i32, ptr %state.p
  %is.ready = icmp eq i32 %state, 1
  br i1 %is.ready, label %switch, label %turn.next
switch:
  %warp.sp.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.stack
  %warp.sp = load i64, ptr %warp.sp.p
  call void @farlane_switch(ptr %scheduler.p, i64 %warp.sp)
  %status = load i32, ptr %status.p
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %after
after:
  %live.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.live
  %live = load i32, ptr %live.p
  %warp.group.ended = icmp eq i32 %live, -1
  br i1 %warp.group.ended, label %finished, label %passed
passed:
  ; Warps pass their turn on: the last one that had it.
  %last = load i32, ptr %last.p
  br label %turn.next
turn.next:
  %w.had = phi i32 [ %w, %turn ], [ %last, %passed ]
  %w.next = add i32 %w.had, 1
  %w.more = icmp ult i32 %w.next, %warp.count
  br i1 %w.more, label %turn, label %ended
ended:
  %released = call i1 @farlane_release(ptr %worker)
  br i1 %released, label %round.abort, label %count
count:
  %c = phi i32 [ 0, %ended ], [ %c.next, %count ]
  %waiting = phi i1 [ false, %ended ], [ %waiting.next, %count ]
  %ready = phi i1 [ false, %ended ], [ %ready.next, %count ]
  %held = phi i1 [ false, %ended ], [ %held.next, %count ]
  %c.state.p = getelementptr %WarpState, ptr %warps, i32 %c, i32 WarpState.state
  %c.state = load i32, ptr %c.state.p
  %c.ready = icmp eq i32 %c.state, 1
  %c.waiting = icmp eq i32 %c.state, 2
  %ready.next = or i1 %ready, %c.ready
  %waiting.next = or i1 %waiting, %c.waiting
  %c.ids.p = getelementptr %WarpState, ptr %warps, i32 %c, i32 WarpState.barriers
  %c.ids = load i32, ptr %c.ids.p
  %c.cluster = icmp uge i32 %c.ids, 65536
  %c.held = and i1 %c.waiting, %c.cluster
  %held.next = or i1 %held, %c.held
  %c.next = add i32 %c, 1
  %c.more = icmp ult i32 %c.next, %warp.count
  br i1 %c.more, label %count, label %counted
counted:
  br i1 %ready.next, label %round.abort, label %idle
round.abort:
  %abort.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.abort
  %abort = load atomic i32, ptr %abort.p monotonic, align 4
  %stop = icmp ne i32 %abort, 0
  br i1 %stop, label %stopped, label %goes.on
goes.on:
  %idle.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.idle
  %idle.turns = load i32, ptr %idle.p
  %idle.more = add i32 %idle.turns, 1
  store i32 %idle.more, ptr %idle.p
  ret i32 3
stopped:
  store i32 2, ptr %status.p
  ret i32 2
idle:
  br i1 %waiting.next, label %stuck, label %finished
stuck:
  br i1 %held.next, label %waits, label %deadlock
waits:
  ret i32 4
deadlock:
  %fault = call i32 @farlane_block_stuck(ptr %worker)
  ret i32 %fault
failed:
  %status.end = load i32, ptr %status.p
  ret i32 %status.end
finished:
  ret i32 0
}

; The warps of a block wait for what can never come. Reported by the first of them, on a fiber of its own because a fault never returns.
define internal i32 @farlane_block_stuck(ptr %worker) {
entry:
  %warps.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.warps
  %warps = load ptr, ptr %warps.p
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  br label %find
find:
  %d = phi i32 [ 0, %entry ], [ %d.next, %find ]
  %warp = getelementptr %WarpState, ptr %warps, i32 %d
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  %state = load i32, ptr %state.p
  %waiting = icmp eq i32 %state, 2
  %d.next = add i32 %d, 1
  br i1 %waiting, label %report, label %find
report:
  %d64 = zext i32 %d to i64
  %sp = call i64 @farlane_prepare(ptr %worker, i64 %d64, ptr @farlane_deadlock_main, ptr %warp)
  call void @farlane_switch(ptr %scheduler.p, i64 %sp)
  %status = load i32, ptr %status.p
  ret i32 %status
}

define internal void @farlane_deadlock_main(ptr %warp) noreturn {
  call void @farlane_fault(ptr %warp, i32 8, i64 0, i32 0, i32 0, i32 0, i32 0)
  unreachable
}

; Entry point: runs blocks until none is left. 0 done, 1 fault, 2 aborted.
define i32 @farlane_run(ptr %launch, ptr %worker) {
entry:
  store ptr %launch, ptr %worker
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  store i32 0, ptr %status.p
  %latches.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.latches
  %latches = load ptr, ptr %latches.p
  %latch.bytes = load i64, ptr @farlane_latch_bytes
  call void @llvm.memset.p0.i64(ptr %latches, i8 0, i64 %latch.bytes, i1 false)
  %fibers = load i1, ptr @farlane_fibers
  br i1 %fibers, label %kind, label %simple
kind:
  %cooperative.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cooperative
  %cooperative = load ptr, ptr %cooperative.p
  %apart = icmp eq ptr %cooperative, null
  br i1 %apart, label %groups, label %cooperative.run
cooperative.run:
  %cooperative.end.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.end_block
  %cooperative.end = load i64, ptr %cooperative.end.p
  %cooperative.status = call i32 @farlane_cooperative(ptr %launch, ptr %worker, ptr %cooperative, i64 0, i64 %cooperative.end)
  br label %done
groups:
  %peers.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.peers
  %peers = load ptr, ptr %peers.p
  %alone = icmp eq ptr %peers, null
  br i1 %alone, label %waiting, label %clusters
waiting:
  %more.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.more
  %more.blocks = load ptr, ptr %more.p
  %in.order = icmp eq ptr %more.blocks, null
  br i1 %in.order, label %take, label %waiting.blocks
waiting.blocks:
  %waiting.blocks.status = call i32 @farlane_waiting_blocks(ptr %launch, ptr %worker)
  br label %done
clusters:
  %cluster.status = call i32 @farlane_clusters(ptr %launch, ptr %worker, ptr %peers)
  br label %done
simple:
  %warps.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.warps
  %warp = load ptr, ptr %warps.p
  store ptr %worker, ptr %warp
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  store ptr %launch, ptr %launch.p
  %sp = call i64 @farlane_prepare(ptr %worker, i64 0, ptr @farlane_simple_main, ptr %warp)
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  call void @farlane_switch(ptr %scheduler.p, i64 %sp)
  br label %done
take:
  %range = call { i64, i64 } @farlane_take(ptr %launch)
  %first = extractvalue { i64, i64 } %range, 0
  %last = extractvalue { i64, i64 } %range, 1
  %none = icmp eq i64 %last, 0
  br i1 %none, label %done, label %block
block:
  %index = phi i64 [ %first, %take ], [ %index.next, %block.next ]
  %status = call i32 @farlane_block(ptr %worker, ptr %launch, i64 %index)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %done, label %block.next
block.next:
  %index.next = add i64 %index, 1
  %more = icmp ult i64 %index.next, %last
  br i1 %more, label %block, label %take
done:
  %streams = load i1, ptr @farlane_streams
  br i1 %streams, label %order, label %end
order:
  ; Before whatever follows the launch come the stores that went past the caches (streaming.py).
  fence seq_cst
  br label %end
end:
  %end.status = load i32, ptr %status.p
  %clean = icmp eq i32 %end.status, 0
  br i1 %clean, label %check, label %return
check:
  ; Nothing went wrong here, but another worker or the caller may have stopped the launch.
  %abort.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.abort
  %abort = load atomic i32, ptr %abort.p monotonic, align 4
  %stop = icmp ne i32 %abort, 0
  %late = select i1 %stop, i32 2, i32 0
  br label %return
return:
  %result = phi i32 [ %end.status, %end ], [ %late, %check ]
  ret i32 %result
}
