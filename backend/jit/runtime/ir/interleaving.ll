; Block interleaving: blocks of a grid that go through a loop together on one CPU thread (interleaving.py says which, and why).
;
; Each block has a worker state of its own; they share the thread's latches. While the first warps of several blocks run for their teams, they form a ring
; (Worker.ring): in the loop, each hands its turn to the next one directly (farlane_beside). A block that comes back to the scheduler leaves the ring: it has
; ended, or its team has, and then it is run to its end before the others go on. Worker.turn of the thread's own state says which block that is.

; Runs the blocks that this worker gets. %states: as many as @farlane_interleaved_blocks. Sets the worker's status and returns it.
define internal i32 @farlane_interleaved(ptr %launch, ptr %worker, ptr %states) {
entry:
  %most32 = load i32, ptr @farlane_interleaved_blocks
  %most = zext i32 %most32 to i64
  br label %take
take:
  %range = call { i64, i64 } @farlane_take(ptr %launch)
  %first = extractvalue { i64, i64 } %range, 0
  %last = extractvalue { i64, i64 } %range, 1
  %none = icmp eq i64 %last, 0
  br i1 %none, label %done, label %group
group:
  %index = phi i64 [ %first, %take ], [ %index.next, %next ]
  %left = sub i64 %last, %index
  %count = call i64 @llvm.umin.i64(i64 %left, i64 %most)
  %status = call i32 @farlane_interleaved_group(ptr %launch, ptr %worker, ptr %states, i64 %index, i64 %count)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %next
next:
  %index.next = add i64 %index, %count
  %more = icmp ult i64 %index.next, %last
  br i1 %more, label %group, label %take
failed:
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  store i32 %status, ptr %status.p
  ret i32 %status
done:
  ret i32 0
}

; Runs %count blocks from number %first on to their end; 0, or the status of the one that did not get there.
define internal i32 @farlane_interleaved_group(ptr %launch, ptr %worker, ptr %states, i64 %first, i64 %count) {
entry:
  %turn.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.turn
  br label %start
start:
  ; Sizes are the launch's; arenas are the block's own, and have room for them.
  %s = phi i64 [ 0, %entry ], [ %s.next, %start ]
  %state = getelementptr %WorkerState, ptr %states, i64 %s
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %count
  %ring.index = select i1 %s.more, i64 %s.next, i64 0
  %ring.next = getelementptr %WorkerState, ptr %states, i64 %ring.index
  %ring.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.ring
  store ptr %ring.next, ptr %ring.p
  %own.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.thread
  store ptr %worker, ptr %own.p
  store ptr %launch, ptr %state
  call void @farlane_interleaved_take_over(ptr %worker, ptr %state)
  %block = add i64 %first, %s
  call void @farlane_block_start(ptr %state, ptr %launch, i64 %block)
  br i1 %s.more, label %start, label %turn
turn:
  %here = phi ptr [ %states, %start ], [ %after, %onward ]
  store ptr %here, ptr %turn.p
  %scheduler.p = getelementptr %WorkerState, ptr %here, i32 0, i32 WorkerState.scheduler_sp
  %warps.p = getelementptr %WorkerState, ptr %here, i32 0, i32 WorkerState.warps
  %warp = load ptr, ptr %warps.p
  %sp.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.stack
  %sp = load i64, ptr %sp.p
  call void @farlane_switch(ptr %scheduler.p, i64 %sp)
  %back = load ptr, ptr %turn.p
  %back.status.p = getelementptr %WorkerState, ptr %back, i32 0, i32 WorkerState.status
  %back.status = load i32, ptr %back.status.p
  %bad = icmp ne i32 %back.status, 0
  br i1 %bad, label %failed, label %unlink
unlink:
  %back.ring.p = getelementptr %WorkerState, ptr %back, i32 0, i32 WorkerState.ring
  %after = load ptr, ptr %back.ring.p
  store ptr null, ptr %back.ring.p
  br label %find
find:
  %at = phi ptr [ %after, %unlink ], [ %at.next, %find.next ]
  %alone = icmp eq ptr %at, %back
  br i1 %alone, label %unlinked, label %find.test
find.test:
  %at.ring.p = getelementptr %WorkerState, ptr %at, i32 0, i32 WorkerState.ring
  %at.next = load ptr, ptr %at.ring.p
  %before = icmp eq ptr %at.next, %back
  br i1 %before, label %close, label %find.next
find.next:
  br label %find
close:
  store ptr %after, ptr %at.ring.p
  br label %unlinked
unlinked:
  %live.p = getelementptr %WorkerState, ptr %back, i32 0, i32 WorkerState.live
  %live = load i32, ptr %live.p
  %ended = icmp eq i32 %live, -1
  br i1 %ended, label %onward.test, label %round
round:
  %result = call i32 @farlane_block_round(ptr %back, ptr %launch)
  switch i32 %result, label %failed [ i32 0, label %onward.test
                                      i32 3, label %round ]
onward.test:
  %none = icmp eq ptr %after, %back
  br i1 %none, label %done, label %onward
onward:
  br label %turn
failed:
  %code = phi i32 [ %back.status, %turn ], [ %result, %round ]
  ret i32 %code
done:
  ret i32 0
}

; What a block's state has of the thread's.
define internal void @farlane_interleaved_take_over(ptr %worker, ptr %state) {
  %shared.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared_size
  %shared = load i64, ptr %shared.p
  %shared.to = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.shared_size
  store i64 %shared, ptr %shared.to
  %local.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.local_size
  %local = load i64, ptr %local.p
  %local.to = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.local_size
  store i64 %local, ptr %local.to
  %latches.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.latches
  %latches = load ptr, ptr %latches.p
  %latches.to = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.latches
  store ptr %latches, ptr %latches.to
  %index.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.index
  %index = load i32, ptr %index.p
  %index.to = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.index
  store i32 %index, ptr %index.to
  %status.to = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.status
  store i32 0, ptr %status.to
  ret void
}

; In a loop of a team's code: the next block of the ring goes on.
define internal void @farlane_beside(ptr %warp) noinline {
entry:
  %worker = load ptr, ptr %warp
  %ring.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.ring
  %next = load ptr, ptr %ring.p
  %none = icmp eq ptr %next, null
  %self = icmp eq ptr %next, %worker
  %alone = or i1 %none, %self
  br i1 %alone, label %stay, label %go
stay:
  ret void
go:
  ; Whichever comes back to the scheduler comes back to where the first one was let in.
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  %scheduler = load i64, ptr %scheduler.p
  %scheduler.to = getelementptr %WorkerState, ptr %next, i32 0, i32 WorkerState.scheduler_sp
  store i64 %scheduler, ptr %scheduler.to
  %own.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.thread
  %own = load ptr, ptr %own.p
  %turn.p = getelementptr %WorkerState, ptr %own, i32 0, i32 WorkerState.turn
  store ptr %next, ptr %turn.p
  %sp.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.stack
  %warps.p = getelementptr %WorkerState, ptr %next, i32 0, i32 WorkerState.warps
  %to.warp = load ptr, ptr %warps.p
  %to.p = getelementptr %WarpState, ptr %to.warp, i32 0, i32 WarpState.stack
  %to = load i64, ptr %to.p
  call void @farlane_switch(ptr %sp.p, i64 %to)
  ret void
}
