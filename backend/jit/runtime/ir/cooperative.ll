; Blocks that are alive at once on one CPU thread, in turn: a grid's (concurrent_blocks.py), or a cluster's (cluster.ll).
;
; Each block has a worker state of its own (arenas, fibers, barriers); they share the thread's latches. A block's turn is one round of its
; warps: a warp that waits for another block (a loop that spins, which lets others run) gives its turn back.

; Runs %count blocks from number %first on to their end. %states: a worker state for each. Sets the worker's status and returns it.
define internal i32 @farlane_cooperative(ptr %launch, ptr %worker, ptr %states, i64 %first, i64 %count) {
entry:
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  br label %start
start:
  %s = phi i64 [ 0, %entry ], [ %s.next, %start ]
  %s.state = getelementptr %WorkerState, ptr %states, i64 %s
  store ptr %launch, ptr %s.state
  %s.status.p = getelementptr %WorkerState, ptr %s.state, i32 0, i32 WorkerState.status
  store i32 0, ptr %s.status.p
  %s.over.p = getelementptr %WorkerState, ptr %s.state, i32 0, i32 WorkerState.over
  store i32 0, ptr %s.over.p
  %s.block = add i64 %first, %s
  call void @farlane_block_start(ptr %s.state, ptr %launch, i64 %s.block)
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %count
  br i1 %s.more, label %start, label %pass
pass:
  br label %turn
turn:
  %b = phi i64 [ 0, %pass ], [ %b.next, %next ]
  %running = phi i1 [ false, %pass ], [ %running.next, %next ]
  %held = phi ptr [ null, %pass ], [ %held.next, %next ]
  %state = getelementptr %WorkerState, ptr %states, i64 %b
  %over.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.over
  %over = load i32, ptr %over.p
  %is.over = icmp ne i32 %over, 0
  br i1 %is.over, label %next, label %round
round:
  %result = call i32 @farlane_block_round(ptr %state, ptr %launch)
  switch i32 %result, label %failed [ i32 0, label %ended
                                      i32 3, label %on
                                      i32 4, label %waits ]
on:
  br label %next
waits:
  br label %next
ended:
  store i32 1, ptr %over.p
  br label %next
next:
  %running.next = phi i1 [ %running, %turn ], [ true, %on ], [ %running, %ended ], [ %running, %waits ]
  %held.next = phi ptr [ %held, %turn ], [ %held, %on ], [ %held, %ended ], [ %state, %waits ]
  %b.next = add i64 %b, 1
  %b.more = icmp ult i64 %b.next, %count
  br i1 %b.more, label %turn, label %passed
passed:
  ; A block that has ended may be what a barrier still waited for.
  %completed = call i1 @farlane_cluster_barriers(ptr %launch, ptr %states, i64 %count)
  %again = or i1 %running.next, %completed
  br i1 %again, label %pass, label %idle
idle:
  %none = icmp eq ptr %held.next, null
  br i1 %none, label %done, label %stuck
stuck:
  %fault = call i32 @farlane_block_stuck(ptr %held.next)
  br label %failed
failed:
  %code = phi i32 [ %result, %round ], [ %fault, %stuck ]
  store i32 %code, ptr %status.p
  ret i32 %code
done:
  ret i32 0
}
