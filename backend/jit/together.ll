; Cooperative launches: all blocks of a grid on one CPU thread, in turn (together.py).
;
; Each block has a worker state of its own (arenas, fibers, barriers); they share the thread's latches. A block's turn is one round of its
; warps: a warp that waits for another block (a loop that spins, which lets others run) gives its turn back.

; Runs the launch's blocks to their end. %states: a worker state for each. Sets the worker's status and returns it.
define internal i32 @farlane_together(ptr %launch, ptr %worker, ptr %states) {
entry:
  %end.p = getelementptr %Launch, ptr %launch, i32 0, i32 7
  %end = load i64, ptr %end.p
  %status.p = getelementptr %Worker, ptr %worker, i32 0, i32 10
  br label %start
start:
  %s = phi i64 [ 0, %entry ], [ %s.next, %start ]
  %s.state = getelementptr %Worker, ptr %states, i64 %s
  store ptr %launch, ptr %s.state
  %s.status.p = getelementptr %Worker, ptr %s.state, i32 0, i32 10
  store i32 0, ptr %s.status.p
  %s.over.p = getelementptr %Worker, ptr %s.state, i32 0, i32 14
  store i32 0, ptr %s.over.p
  call void @farlane_block_start(ptr %s.state, ptr %launch, i64 %s)
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %end
  br i1 %s.more, label %start, label %pass
pass:
  br label %turn
turn:
  %b = phi i64 [ 0, %pass ], [ %b.next, %next ]
  %running = phi i32 [ 0, %pass ], [ %running.next, %next ]
  %state = getelementptr %Worker, ptr %states, i64 %b
  %over.p = getelementptr %Worker, ptr %state, i32 0, i32 14
  %over = load i32, ptr %over.p
  %is.over = icmp ne i32 %over, 0
  br i1 %is.over, label %next, label %round
round:
  %result = call i32 @farlane_block_round(ptr %state, ptr %launch)
  switch i32 %result, label %failed [ i32 0, label %ended
                                      i32 3, label %on ]
on:
  br label %next
ended:
  store i32 1, ptr %over.p
  br label %next
next:
  %more.running = phi i32 [ 0, %turn ], [ 1, %on ], [ 0, %ended ]
  %running.next = add i32 %running, %more.running
  %b.next = add i64 %b, 1
  %b.more = icmp ult i64 %b.next, %end
  br i1 %b.more, label %turn, label %passed
passed:
  %again = icmp ne i32 %running.next, 0
  br i1 %again, label %pass, label %done
failed:
  store i32 %result, ptr %status.p
  ret i32 %result
done:
  ret i32 0
}
