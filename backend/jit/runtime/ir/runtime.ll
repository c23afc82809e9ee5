; Runtime support of native kernels: fibers and faults. Beside it lie page checks, barriers, blocks and their scheduler.
;
; Owns everything that does not depend on the kernel. kernel.py puts the kernel's own text (constants and @farlane_kernel) after it, and
; the module assembly of the host's architecture (fibers.py) before it. Structures: structures.py, layout.py.
; A kernel always runs on a fiber, so that a fault or an abort can leave it from any depth: it switches to the scheduler and never returns.
; Ordering: a block never leaves its worker, so shared memory and barrier state are touched by one CPU thread only.

declare void @farlane_switch(ptr, i64)
declare void @farlane_start()
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.cttz.i32(i32, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare <32 x i64> @llvm.fshr.v32i64(<32 x i64>, <32 x i64>, <32 x i64>)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.usub.sat.i32(i32, i32)
declare i64 @llvm.usub.sat.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; --- Fibers ---------------------------------------------------------------------------------------------------------

; Prepares stack number %index of the worker so that switching to the returned stack pointer calls %function(%argument). The stacks start at
; different lines of a page: their frames would meet in the same few sets of the first-level cache else.
define internal i64 @farlane_prepare(ptr %worker, i64 %index, ptr %function, ptr %argument) {
  %stacks.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.stacks
  %stacks = load ptr, ptr %stacks.p
  %size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.stack_size
  %size = load i64, ptr %size.p
  %next = add i64 %index, 1
  %end = mul i64 %next, %size
  %color.1 = mul i64 %index, 1088
  %color = and i64 %color.1, 4032
  %top = sub i64 %end, %color
  %frame.at = sub i64 %top, 256
  %frame = getelementptr i8, ptr %stacks, i64 %frame.at
  call void @llvm.memset.p0.i64(ptr %frame, i8 0, i64 256, i1 false)
  %function.p = getelementptr i8, ptr %frame, i64 FIBER_FUNCTION
  store ptr %function, ptr %function.p
  %argument.p = getelementptr i8, ptr %frame, i64 FIBER_ARGUMENT
  store ptr %argument, ptr %argument.p
  %start.p = getelementptr i8, ptr %frame, i64 FIBER_START
  store ptr @farlane_start, ptr %start.p
  %sp = ptrtoint ptr %frame to i64
  ret i64 %sp
}

define internal void @farlane_to_scheduler(ptr %warp) noinline {
  %worker.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.worker
  %worker = load ptr, ptr %worker.p
  %sp.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.stack
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  %scheduler = load i64, ptr %scheduler.p
  call void @farlane_switch(ptr %sp.p, i64 %scheduler)
  ret void
}

; Ends a warp's turn: the next warp goes on when it is ready, without a detour, else the scheduler, which is told who was last.
define internal void @farlane_pass(ptr %warp) {
entry:
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.place
  %index = load i32, ptr %index.p
  %next = add i32 %index, 1
  %count = load i32, ptr @farlane_warps
  %sp.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.stack
  %exists = icmp ult i32 %next, %count
  br i1 %exists, label %look, label %scheduler
look:
  %next.warp = getelementptr %WarpState, ptr %warp, i32 1
  %state.p = getelementptr %WarpState, ptr %next.warp, i32 0, i32 WarpState.state
  %state = load i32, ptr %state.p
  %ready = icmp eq i32 %state, 1
  br i1 %ready, label %direct, label %scheduler
direct:
  %next.sp.p = getelementptr %WarpState, ptr %next.warp, i32 0, i32 WarpState.stack
  %next.sp = load i64, ptr %next.sp.p
  br label %go
scheduler:
  %worker = load ptr, ptr %warp
  %last.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.last
  store i32 %index, ptr %last.p
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  %scheduler.sp = load i64, ptr %scheduler.p
  br label %go
go:
  ; One call for both: the processor predicts that it comes back to where it was made, and between warps it does.
  %to = phi i64 [ %next.sp, %direct ], [ %scheduler.sp, %scheduler ]
  call void @farlane_switch(ptr %sp.p, i64 %to)
  ret void
}

; --- Faults ---------------------------------------------------------------------------------------------------------

define internal void @farlane_fault(ptr %warp, i32 %kind, i64 %address, i32 %size, i32 %write, i32 %lane, i32 %line) cold noinline noreturn {
entry:
  %worker.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.worker
  %worker = load ptr, ptr %worker.p
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %fault.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.fault
  %fault = load ptr, ptr %fault.p
  %claim = cmpxchg ptr %fault, i32 0, i32 1 acq_rel monotonic
  %first = extractvalue { i32, i1 } %claim, 1
  br i1 %first, label %record, label %leave
record:
  %f1 = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.kind
  store i32 %kind, ptr %f1
  %f2 = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.address
  store i64 %address, ptr %f2
  %f3 = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.size
  store i32 %size, ptr %f3
  %f4 = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.write
  store i32 %write, ptr %f4
  %ctaid.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.block
  %ctaid = load [3 x i32], ptr %ctaid.p
  %f5 = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.block
  store [3 x i32] %ctaid, ptr %f5
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %index = load i32, ptr %index.p
  %base = shl i32 %index, 5
  %linear = add i32 %base, %lane
  %bx.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.block, i32 0
  %bx = load i32, ptr %bx.p
  %by.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.block, i32 1
  %by = load i32, ptr %by.p
  %x = urem i32 %linear, %bx
  %rest = udiv i32 %linear, %bx
  %y = urem i32 %rest, %by
  %z = udiv i32 %rest, %by
  %f6x = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.thread, i32 0
  store i32 %x, ptr %f6x
  %f6y = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.thread, i32 1
  store i32 %y, ptr %f6y
  %f6z = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.thread, i32 2
  store i32 %z, ptr %f6z
  %f7 = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.line
  store i32 %line, ptr %f7
  br label %leave
leave:
  %abort.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.abort
  store atomic i32 1, ptr %abort.p release, align 4
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  store i32 1, ptr %status.p
  call void @farlane_to_scheduler(ptr %warp)
  unreachable
}

; Leaves the launch because somebody set Launch.abort.
define internal void @farlane_aborted(ptr %warp) cold noinline noreturn {
  %worker.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.worker
  %worker = load ptr, ptr %worker.p
  %status.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.status
  store i32 2, ptr %status.p
  call void @farlane_to_scheduler(ptr %warp)
  unreachable
}
