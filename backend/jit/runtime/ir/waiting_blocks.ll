; Blocks that may wait for later ones, in grids of any size: a worker runs one block at a time, as long as that gets somewhere.
;
; A block has got nowhere in a turn in which none of its barriers completed and no thread ended. When that was so for all of a worker's blocks
; for Launch.patience turns, as many again begin beside them, in the order of the grid; they come from the launch's counter and have arenas of their
; own (concurrent_blocks.py), which are used again when a block has ended. So what is in memory is what waits.
;
; Launch.chunk is 1: the blocks that have begun, on whatever thread, are the first ones of the grid, as on a GPU. A thread with a range of its own
; would let later blocks of others have the arenas that its first ones wait for.

; Starts the next block on a state that is free, or on a new one. %lists: the living blocks and the free states. Whether one was there to start.
define internal i1 @farlane_waiting_blocks_start(ptr %launch, ptr %worker, ptr %lists) {
entry:
  %free.p = getelementptr ptr, ptr %lists, i32 1
  %free = load ptr, ptr %free.p
  %none.free = icmp eq ptr %free, null
  br i1 %none.free, label %ask, label %reuse
reuse:
  %reuse.next.p = getelementptr %WorkerState, ptr %free, i32 0, i32 WorkerState.next
  %reuse.next = load ptr, ptr %reuse.next.p
  store ptr %reuse.next, ptr %free.p
  br label %block
ask:
  %more.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.more
  %more = load ptr, ptr %more.p
  %new = call ptr %more(ptr %worker)
  %refused = icmp eq ptr %new, null
  br i1 %refused, label %no, label %block
block:
  %state = phi ptr [ %free, %reuse ], [ %new, %ask ]
  %taken = call { i64, i64 } @farlane_take(ptr %launch)
  %number = extractvalue { i64, i64 } %taken, 0
  %last = extractvalue { i64, i64 } %taken, 1
  %over = icmp eq i64 %last, 0
  %next.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.next
  br i1 %over, label %give.back, label %start
give.back:
  %others = load ptr, ptr %free.p
  store ptr %others, ptr %next.p
  store ptr %state, ptr %free.p
  br label %no
start:
  store ptr null, ptr %next.p
  store ptr %launch, ptr %state
  %status.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.status
  store i32 0, ptr %status.p
  call void @farlane_block_start(ptr %state, ptr %launch, i64 %number)
  br label %find
find:
  ; At the end of the list: turns are dealt out in the order of the blocks.
  %at = phi ptr [ %lists, %start ], [ %at.next.p, %onward ]
  %at.state = load ptr, ptr %at
  %end = icmp eq ptr %at.state, null
  br i1 %end, label %append, label %onward
onward:
  %at.next.p = getelementptr %WorkerState, ptr %at.state, i32 0, i32 WorkerState.next
  br label %find
append:
  store ptr %state, ptr %at
  ret i1 true
no:
  ret i1 false
}

; Runs the blocks that this worker gets to their end. Sets the worker's status and returns it.
define internal i32 @farlane_waiting_blocks(ptr %launch, ptr %worker) {
entry:
  %lists = alloca [2 x ptr], align 8
  store ptr null, ptr %lists
  %free.p = getelementptr ptr, ptr %lists, i32 1
  store ptr %worker, ptr %free.p
  %worker.next.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.next
  store ptr null, ptr %worker.next.p
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  %patience.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.patience
  %patience = load i32, ptr %patience.p
  br label %one
one:
  %started = call i1 @farlane_waiting_blocks_start(ptr %launch, ptr %worker, ptr %lists)
  br i1 %started, label %pass, label %done
pass:
  br label %turn
turn:
  ; %link: where the list points to %state.
  %link = phi ptr [ %lists, %pass ], [ %link.next, %next ]
  %alive = phi i32 [ 0, %pass ], [ %alive.next, %next ]
  %stuck = phi i1 [ true, %pass ], [ %stuck.next, %next ]
  %state = load ptr, ptr %link
  %end = icmp eq ptr %state, null
  br i1 %end, label %passed, label %round
round:
  %next.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.next
  %result = call i32 @farlane_block_round(ptr %state, ptr %launch)
  switch i32 %result, label %failed [ i32 0, label %ended
                                      i32 3, label %on
                                      i32 4, label %cluster ]
cluster:
  ; A cluster of one block.
  %complete = call i1 @farlane_cluster_complete(ptr %state, i64 1)
  br i1 %complete, label %on, label %never
never:
  %fault = call i32 @farlane_block_stuck(ptr %state)
  br label %failed
on:
  %idle.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.idle
  %idle = load i32, ptr %idle.p
  %long = icmp uge i32 %idle, %patience
  br label %next
ended:
  %after = load ptr, ptr %next.p
  store ptr %after, ptr %link
  %free = load ptr, ptr %free.p
  store ptr %free, ptr %next.p
  store ptr %state, ptr %free.p
  br label %next
next:
  %link.next = phi ptr [ %next.p, %on ], [ %link, %ended ]
  %counts = phi i32 [ 1, %on ], [ 0, %ended ]
  %waits = phi i1 [ %long, %on ], [ false, %ended ]
  %alive.next = add i32 %alive, %counts
  %stuck.next = and i1 %stuck, %waits
  br label %turn
passed:
  %empty = icmp eq i32 %alive, 0
  br i1 %empty, label %one, label %more.test
more.test:
  br i1 %stuck, label %grow, label %pass
grow:
  %g = phi i32 [ 0, %more.test ], [ %g.next, %grown ]
  %enough = icmp uge i32 %g, %alive
  br i1 %enough, label %pass, label %grow.one
grow.one:
  %another = call i1 @farlane_waiting_blocks_start(ptr %launch, ptr %worker, ptr %lists)
  br i1 %another, label %grown, label %pass
grown:
  %g.next = add i32 %g, 1
  br label %grow
failed:
  %code = phi i32 [ %result, %round ], [ %fault, %never ]
  store i32 %code, ptr %status.p
  ret i32 %code
done:
  ret i32 0
}
