; Runtime support of native kernels: block scheduler, fibers, barriers, page checks, faults.
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
; different lines of a page, and those of blocks abreast do: their frames would meet in the same few sets of the first-level cache else.
define internal i64 @farlane_prepare(ptr %worker, i64 %index, ptr %function, ptr %argument) {
  %stacks.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.stacks
  %stacks = load ptr, ptr %stacks.p
  %size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.stack_size
  %size = load i64, ptr %size.p
  %next = add i64 %index, 1
  %end = mul i64 %next, %size
  %number.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.number
  %number = load i32, ptr %number.p
  %number64 = zext i32 %number to i64
  %color.1 = mul i64 %index, 1088
  %color.2 = mul i64 %number64, 512
  %color.3 = add i64 %color.1, %color.2
  %color = and i64 %color.3, 4032
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

; --- Memory checks --------------------------------------------------------------------------------------------------

; Whether [%address, %address + %size) may be accessed; %need = page flag bits.
define internal i1 @farlane_allowed(ptr %launch, i64 %address, i64 %size, i8 %need) {
entry:
  %base.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.window_base
  %base = load i64, ptr %base.p
  %window.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.window_size
  %window = load i64, ptr %window.p
  %flags.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.page_flags
  %flags = load ptr, ptr %flags.p
  %shift.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.page_shift
  %shift32 = load i32, ptr %shift.p
  %shift = zext i32 %shift32 to i64
  %offset = sub i64 %address, %base
  %fits = icmp uge i64 %window, %size
  %room = sub i64 %window, %size
  %inside = icmp ule i64 %offset, %room
  %ok = and i1 %fits, %inside
  br i1 %ok, label %pages, label %no
pages:
  %first = lshr i64 %offset, %shift
  %last.offset.1 = add i64 %offset, %size
  %last.offset = sub i64 %last.offset.1, 1
  %last = lshr i64 %last.offset, %shift
  %a.p = getelementptr i8, ptr %flags, i64 %first
  %a = load i8, ptr %a.p
  %b.p = getelementptr i8, ptr %flags, i64 %last
  %b = load i8, ptr %b.p
  %both = and i8 %a, %b
  %has = and i8 %both, %need
  %good = icmp eq i8 %has, %need
  ret i1 %good
no:
  %held = and i8 %need, 4
  %asks = icmp ne i8 %held, 0
  br i1 %asks, label %never, label %elsewhere
elsewhere:
  %run = call { i64, i64 } @farlane_alias(ptr %launch, i64 %address, i64 %size)
  %run.end = extractvalue { i64, i64 } %run, 1
  %found = icmp ne i64 %run.end, 0
  ret i1 %found
never:
  ret i1 false
}

; The run of pages outside of the window that is window memory at another address, and holds [%address, %address + %size): its start and its end.
; { 0, 0 }: none. Such pages may be read and written.
define internal { i64, i64 } @farlane_alias(ptr %launch, i64 %address, i64 %size) cold noinline {
entry:
  %aliases.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.aliases
  %aliases = load ptr, ptr %aliases.p
  %none = icmp eq ptr %aliases, null
  br i1 %none, label %no, label %count
count:
  %number = load i64, ptr %aliases
  br label %look
look:
  %index = phi i64 [ 0, %count ], [ %next, %test ]
  %more = icmp ult i64 %index, %number
  br i1 %more, label %test, label %no
test:
  %next = add i64 %index, 1
  %low.p = getelementptr %Aliases, ptr %aliases, i32 0, i32 Aliases.runs, i64 %index, i32 Run.start
  %low = load i64, ptr %low.p
  %end.p = getelementptr %Aliases, ptr %aliases, i32 0, i32 Aliases.runs, i64 %index, i32 Run.end
  %end = load i64, ptr %end.p
  %length = sub i64 %end, %low
  %offset = sub i64 %address, %low
  %inside = icmp ult i64 %offset, %length
  %room = sub i64 %length, %offset
  %fits = icmp uge i64 %room, %size
  %ok = and i1 %inside, %fits
  br i1 %ok, label %yes, label %look
yes:
  %a = insertvalue { i64, i64 } poison, i64 %low, 0
  %b = insertvalue { i64, i64 } %a, i64 %end, 1
  ret { i64, i64 } %b
no:
  ret { i64, i64 } zeroinitializer
}

; Asks the device about an access that the flags do not allow, where a page of it is held (PAGE_HELD): it may be away, and is brought in.
; 0: the access is illegal. 1: it is allowed now. 2: it is, and other pages have gone for it.
define internal i32 @farlane_ask(ptr %warp, ptr %launch, i64 %address, i64 %size, i32 %write, i32 %lane, i32 %line) cold noinline {
entry:
  %held = call i1 @farlane_allowed(ptr %launch, i64 %address, i64 %size, i8 4)
  br i1 %held, label %ask, label %no
no:
  ret i32 0
ask:
  %request = alloca [64 x i8], align 64
  store i32 6, ptr %request
  %lanes.p = getelementptr %Request, ptr %request, i32 0, i32 Request.lanes
  %lanes = shl i32 1, %lane
  store i32 %lanes, ptr %lanes.p
  %line.p = getelementptr %Request, ptr %request, i32 0, i32 Request.line
  store i32 %line, ptr %line.p
  %address.p = getelementptr %Request, ptr %request, i32 0, i32 Request.page_address
  store i64 %address, ptr %address.p
  %size.p = getelementptr %Request, ptr %request, i32 0, i32 Request.page_size
  store i64 %size, ptr %size.p
  %write64 = zext i32 %write to i64
  %write.p = getelementptr %Request, ptr %request, i32 0, i32 Request.page_write
  store i64 %write64, ptr %write.p
  call void @farlane_request(ptr %warp, ptr %request)
  %answer.p = getelementptr %Request, ptr %request, i32 0, i32 Request.page_answer
  %answer = load i32, ptr %answer.p
  ret i32 %answer
}

; Called when a lane's address is outside its site's latch: checks every such lane exactly (a bad one faults), and points the latch at
; the whole run of accessible pages round it, in which all others may be. %shape: bits 0-7 log2 of the size, bit 8 write, bits 16-30 how many elements a
; row of lanes reaches beyond its lowest address, which is all that is compared with the latch. Where pages have gone for a lane's,
; they may be an earlier lane's: all are looked at again.
define internal void @farlane_miss(ptr %warp, <32 x i64> %addresses, i32 %lanes, ptr %latch, i32 %shape, i32 %line) cold noinline {
entry:
  %array = alloca [32 x i64], align 64
  store <32 x i64> %addresses, ptr %array, align 64
  call void @farlane_witness(ptr %warp, <32 x i64> %addresses, i32 %lanes)
  br label %look
look:
  %left = phi i32 [ %lanes, %entry ], [ %left.next, %checked ], [ %lanes, %again ]
  %gone = phi i1 [ false, %entry ], [ %gone.next, %checked ], [ false, %again ]
  %elsewhere = call i32 @farlane_outside(<32 x i64> %addresses, ptr %latch, i32 %shape)
  %bad = and i32 %left, %elsewhere
  %any = icmp ne i32 %bad, 0
  br i1 %any, label %check, label %passed
check:
  %lane = call i32 @llvm.cttz.i32(i32 %bad, i1 true)
  %lane.address.p = getelementptr [32 x i64], ptr %array, i32 0, i32 %lane
  %address = load i64, ptr %lane.address.p
  %moved = call i1 @farlane_check_lane(ptr %warp, i64 %address, i32 %lane, ptr %latch, i32 %shape, i32 %line)
  br label %checked
checked:
  %gone.next = or i1 %gone, %moved
  %minus = sub i32 %bad, 1
  %left.next = and i32 %bad, %minus
  br label %look
passed:
  br i1 %gone, label %again, label %done
again:
  br label %look
done:
  call void @farlane_witness(ptr %warp, <32 x i64> zeroinitializer, i32 0)
  ret void
}

; The lanes whose addresses are misaligned, or not in the latch's run.
define internal i32 @farlane_outside(<32 x i64> %addresses, ptr %latch, i32 %shape) {
  %low = load i64, ptr %latch
  %count.p = getelementptr %Latch, ptr %latch, i32 0, i32 Latch.end
  %count = load i64, ptr %count.p
  %low.1 = insertelement <32 x i64> poison, i64 %low, i32 0
  %low.all = shufflevector <32 x i64> %low.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %count.1 = insertelement <32 x i64> poison, i64 %count, i32 0
  %count.all = shufflevector <32 x i64> %count.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %log32 = and i32 %shape, 255
  %log = zext i32 %log32 to i64
  %log.1 = insertelement <32 x i64> poison, i64 %log, i32 0
  %log.all = shufflevector <32 x i64> %log.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %offsets = sub <32 x i64> %addresses, %low.all
  %turned = call <32 x i64> @llvm.fshr.v32i64(<32 x i64> %offsets, <32 x i64> %offsets, <32 x i64> %log.all)
  %outside = icmp uge <32 x i64> %turned, %count.all
  %bits = bitcast <32 x i1> %outside to i32
  ret i32 %bits
}

; The same for one address.
define internal void @farlane_check(ptr %warp, i64 %address, i32 %lane, ptr %latch, i32 %shape, i32 %line) cold noinline {
  %moved = call i1 @farlane_check_lane(ptr %warp, i64 %address, i32 %lane, ptr %latch, i32 %shape, i32 %line)
  ret void
}

; The same, for code that has much in registers.
define internal preserve_allcc void @farlane_check_alone(ptr %warp, i64 %address, i32 %lane, ptr %latch, i32 %shape, i32 %line) cold noinline {
  %moved = call i1 @farlane_check_lane(ptr %warp, i64 %address, i32 %lane, ptr %latch, i32 %shape, i32 %line)
  ret void
}

; Returns whether pages have gone for this one.
define internal i1 @farlane_check_lane(ptr %warp, i64 %address, i32 %lane, ptr %latch, i32 %shape, i32 %line) cold noinline {
entry:
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %log32 = and i32 %shape, 255
  %log = zext i32 %log32 to i64
  %size = shl i64 1, %log
  %size32 = trunc i64 %size to i32
  %write.1 = lshr i32 %shape, 8
  %write = and i32 %write.1, 1
  %write8 = trunc i32 %write to i8
  %need = add i8 %write8, 1
  %low.mask = sub i64 %size, 1
  %low = and i64 %address, %low.mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %mapped, label %misaligned
misaligned:
  call void @farlane_fault(ptr %warp, i32 2, i64 %address, i32 %size32, i32 %write, i32 %lane, i32 %line)
  unreachable
mapped:
  %exact = load i1, ptr @farlane_exact
  br i1 %exact, label %bounds, label %paged
bounds:
  %held = call { i64, i64 } @farlane_held(ptr %launch, i64 %address, i64 %size)
  %held.end = extractvalue { i64, i64 } %held, 1
  %outside = icmp eq i64 %held.end, 0
  br i1 %outside, label %illegal, label %paged
paged:
  %bound = phi { i64, i64 } [ { i64 0, i64 -1 }, %mapped ], [ %held, %bounds ]
  br label %walk
walk:
  %moved = phi i1 [ false, %paged ], [ %moved.now, %granted ]
  %ok = call i1 @farlane_allowed(ptr %launch, i64 %address, i64 %size, i8 %need)
  br i1 %ok, label %find, label %refused
refused:
  %answer = call i32 @farlane_ask(ptr %warp, ptr %launch, i64 %address, i64 %size, i32 %write, i32 %lane, i32 %line)
  %granting = icmp ne i32 %answer, 0
  br i1 %granting, label %granted, label %illegal
granted:
  %evicting = icmp eq i32 %answer, 2
  %moved.now = or i1 %moved, %evicting
  br label %walk
illegal:
  call void @farlane_fault(ptr %warp, i32 1, i64 %address, i32 %size32, i32 %write, i32 %lane, i32 %line)
  unreachable
find:
  %base.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.window_base
  %base = load i64, ptr %base.p
  %window.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.window_size
  %window = load i64, ptr %window.p
  %flags.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.page_flags
  %flags = load ptr, ptr %flags.p
  %shift.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.page_shift
  %shift32 = load i32, ptr %shift.p
  %shift = zext i32 %shift32 to i64
  %offset = sub i64 %address, %base
  %in.window = icmp ult i64 %offset, %window
  br i1 %in.window, label %flags.walk, label %alias
alias:
  %run = call { i64, i64 } @farlane_alias(ptr %launch, i64 %address, i64 %size)
  %run.low = extractvalue { i64, i64 } %run, 0
  %run.end = extractvalue { i64, i64 } %run, 1
  br label %set
flags.walk:
  %page = lshr i64 %offset, %shift
  %pages = lshr i64 %window, %shift
  %need.1 = insertelement <64 x i8> poison, i8 %need, i32 0
  %need.64 = shufflevector <64 x i8> %need.1, <64 x i8> poison, <64 x i32> zeroinitializer
  br label %below.64
; As far as pages like this one reach, 64 at a time: a kernel that reads at random in much memory comes here often.
below.64:
  %low.64 = phi i64 [ %page, %flags.walk ], [ %low.64.next, %below.load ]
  %below.has.64 = icmp uge i64 %low.64, 64
  %below.distance = sub i64 %page, %low.64
  %below.near = icmp ult i64 %below.distance, 261888
  %below.go = and i1 %below.has.64, %below.near
  br i1 %below.go, label %below.load, label %down
below.load:
  %low.64.next = sub i64 %low.64, 64
  %below.64.p = getelementptr i8, ptr %flags, i64 %low.64.next
  %below.64.flags = load <64 x i8>, ptr %below.64.p, align 1
  %below.64.has = and <64 x i8> %below.64.flags, %need.64
  %below.64.no = icmp ne <64 x i8> %below.64.has, %need.64
  %below.64.mask = bitcast <64 x i1> %below.64.no to i64
  %below.64.all = icmp eq i64 %below.64.mask, 0
  br i1 %below.64.all, label %below.64, label %below.some
below.some:
  %below.count = call i64 @llvm.ctlz.i64(i64 %below.64.mask, i1 true)
  %low.some = sub i64 %low.64, %below.count
  br label %up.start
down:
  %low.page = phi i64 [ %low.64, %below.64 ], [ %below, %down.next ]
  %bottom = icmp eq i64 %low.page, 0
  br i1 %bottom, label %up.start, label %down.test
down.test:
  %below = sub i64 %low.page, 1
  %distance = sub i64 %low.64, %below
  %near = icmp ult i64 %distance, 64
  br i1 %near, label %down.load, label %up.start
down.load:
  %below.p = getelementptr i8, ptr %flags, i64 %below
  %below.flag = load i8, ptr %below.p
  %below.has = and i8 %below.flag, %need
  %below.ok = icmp eq i8 %below.has, %need
  br i1 %below.ok, label %down.next, label %up.start
down.next:
  br label %down
up.start:
  %low.found = phi i64 [ %low.some, %below.some ], [ %low.page, %down ], [ %low.page, %down.test ], [ %low.page, %down.load ]
  %next.page = add i64 %page, 1
  br label %above.64
above.64:
  %high.64 = phi i64 [ %next.page, %up.start ], [ %high.64.next, %above.load ]
  %high.64.next = add i64 %high.64, 64
  %above.has.64 = icmp ule i64 %high.64.next, %pages
  %above.distance = sub i64 %high.64, %page
  %above.near = icmp ult i64 %above.distance, 261888
  %above.go = and i1 %above.has.64, %above.near
  br i1 %above.go, label %above.load, label %up
above.load:
  %above.64.p = getelementptr i8, ptr %flags, i64 %high.64
  %above.64.flags = load <64 x i8>, ptr %above.64.p, align 1
  %above.64.has = and <64 x i8> %above.64.flags, %need.64
  %above.64.no = icmp ne <64 x i8> %above.64.has, %need.64
  %above.64.mask = bitcast <64 x i1> %above.64.no to i64
  %above.64.all = icmp eq i64 %above.64.mask, 0
  br i1 %above.64.all, label %above.64, label %above.some
above.some:
  %above.count = call i64 @llvm.cttz.i64(i64 %above.64.mask, i1 true)
  %high.some = add i64 %high.64, %above.count
  br label %walked
up:
  %high.page = phi i64 [ %high.64, %above.64 ], [ %above, %up.next ]
  %above = add i64 %high.page, 1
  %inside = icmp ult i64 %high.page, %pages
  %distance.up = sub i64 %high.page, %high.64
  %near.up = icmp ult i64 %distance.up, 64
  %go = and i1 %inside, %near.up
  br i1 %go, label %up.load, label %walked
up.load:
  %above.p = getelementptr i8, ptr %flags, i64 %high.page
  %above.flag = load i8, ptr %above.p
  %above.has = and i8 %above.flag, %need
  %above.ok = icmp eq i8 %above.has, %need
  br i1 %above.ok, label %up.next, label %walked
up.next:
  br label %up
walked:
  %end.page = phi i64 [ %high.some, %above.some ], [ %high.page, %up ], [ %high.page, %up.load ]
  %low.offset = shl i64 %low.found, %shift
  %low.page.address = add i64 %base, %low.offset
  %end.offset = shl i64 %end.page, %shift
  %end.page.address = add i64 %base, %end.offset
  br label %set
set:
  %low.run = phi i64 [ %low.page.address, %walked ], [ %run.low, %alias ]
  %end.run = phi i64 [ %end.page.address, %walked ], [ %run.end, %alias ]
  %bound.low = extractvalue { i64, i64 } %bound, 0
  %bound.end = extractvalue { i64, i64 } %bound, 1
  %low.address = call i64 @llvm.umax.i64(i64 %low.run, i64 %bound.low)
  %end.address = call i64 @llvm.umin.i64(i64 %end.run, i64 %bound.end)
  %bytes.all = sub i64 %end.address, %low.address
  ; Distances from its start have 31 bits in code (nearby.py).
  %bytes = call i64 @llvm.umin.i64(i64 %bytes.all, i64 2147483647)
  %all.elements = lshr i64 %bytes, %log
  %span32 = lshr i32 %shape, 16
  %span = zext i32 %span32 to i64
  %elements = call i64 @llvm.usub.sat.i64(i64 %all.elements, i64 %span)
  store i64 %low.address, ptr %latch
  %count.p = getelementptr %Latch, ptr %latch, i32 0, i32 Latch.end
  store i64 %elements, ptr %count.p
  ret i1 %moved
}

; Host addresses of generic addresses. All of the block's shared memory, or all of local memory, as in code that was not optimised: at once.
; What that does not hold for, faults among it, goes lane by lane.
define internal <32 x i64> @farlane_generic(ptr %warp, <32 x i64> %addresses, i32 %lanes, ptr %latch, i32 %shape, i32 %line) noinline {
entry:
  %worker = load ptr, ptr %warp
  %empty = icmp eq i32 %lanes, 0
  br i1 %empty, label %mixed, label %some
some:
  %first = call i32 @llvm.cttz.i32(i32 %lanes, i1 false)
  %address = extractelement <32 x i64> %addresses, i32 %first
  %high = lshr i64 %address, 32
  switch i64 %high, label %mixed [ i64 256, label %shared
                                   i64 257, label %local ]
shared:
  %shared.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared
  %shared.base = load i64, ptr %shared.p
  %shared.size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared_size
  %shared.size = load i64, ptr %shared.size.p
  br label %check
local:
  %local.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.local
  %local.base = load i64, ptr %local.p
  %local.size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.local_size
  %local.size = load i64, ptr %local.size.p
  br label %check
check:
  %base = phi i64 [ %shared.base, %shared ], [ %local.base, %local ]
  %limit = phi i64 [ %shared.size, %shared ], [ %local.size, %local ]
  %step = phi i64 [ 0, %shared ], [ %local.size, %local ]
  %log32 = and i32 %shape, 255
  %log = zext i32 %log32 to i64
  %count = lshr i64 %limit, %log
  %window = shl i64 %high, 32
  %window.1 = insertelement <32 x i64> poison, i64 %window, i32 0
  %window.all = shufflevector <32 x i64> %window.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %count.1 = insertelement <32 x i64> poison, i64 %count, i32 0
  %count.all = shufflevector <32 x i64> %count.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %log.1 = insertelement <32 x i64> poison, i64 %log, i32 0
  %log.all = shufflevector <32 x i64> %log.1, <32 x i64> poison, <32 x i32> zeroinitializer
  ; Of an address outside of the window the difference is huge, and of a misaligned one it is when rotated.
  %offsets = sub <32 x i64> %addresses, %window.all
  %turned = call <32 x i64> @llvm.fshr.v32i64(<32 x i64> %offsets, <32 x i64> %offsets, <32 x i64> %log.all)
  %inside = icmp ult <32 x i64> %turned, %count.all
  %inside.bits = bitcast <32 x i1> %inside to i32
  %outside = xor i32 %inside.bits, -1
  %bad = and i32 %outside, %lanes
  %good = icmp eq i32 %bad, 0
  br i1 %good, label %fast, label %mixed
fast:
  %base.1 = insertelement <32 x i64> poison, i64 %base, i32 0
  %base.all = shufflevector <32 x i64> %base.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %step.1 = insertelement <32 x i64> poison, i64 %step, i32 0
  %step.all = shufflevector <32 x i64> %step.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %steps = mul <32 x i64> %step.all, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15, i64 16, i64 17, i64 18, i64 19, i64 20, i64 21, i64 22, i64 23, i64 24, i64 25, i64 26, i64 27, i64 28, i64 29, i64 30, i64 31>
  %bases = add <32 x i64> %base.all, %steps
  %hosts = add <32 x i64> %bases, %offsets
  %result = select <32 x i1> %inside, <32 x i64> %hosts, <32 x i64> %addresses
  ret <32 x i64> %result
mixed:
  %slow = call <32 x i64> @farlane_generic_mixed(ptr %warp, <32 x i64> %addresses, i32 %lanes, ptr %latch, i32 %shape, i32 %line)
  ret <32 x i64> %slow
}

; Shared, local, parameter and global addresses, lane by lane. Checks every lane.
define internal <32 x i64> @farlane_generic_mixed(ptr %warp, <32 x i64> %addresses, i32 %lanes, ptr %latch, i32 %shape, i32 %line) noinline {
entry:
  %array = alloca [32 x i64], align 64
  store <32 x i64> %addresses, ptr %array, align 64
  call void @farlane_witness(ptr %warp, <32 x i64> %addresses, i32 %lanes)
  %log32 = and i32 %shape, 255
  %log = zext i32 %log32 to i64
  %size = shl i64 1, %log
  %worker.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.worker
  %worker = load ptr, ptr %worker.p
  %empty = icmp eq i32 %lanes, 0
  br i1 %empty, label %done, label %loop
loop:
  %left = phi i32 [ %lanes, %entry ], [ %left.next, %next ], [ %lanes, %again ]
  %gone = phi i1 [ false, %entry ], [ %gone.next, %next ], [ false, %again ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %slot = getelementptr [32 x i64], ptr %array, i32 0, i32 %lane
  %address = load i64, ptr %slot
  %high = lshr i64 %address, 32
  %low = and i64 %address, 4294967295
  switch i64 %high, label %global [ i64 256, label %shared
                                    i64 257, label %local
                                    i64 258, label %parameter ]
global:
  %moved = call i1 @farlane_check_lane(ptr %warp, i64 %address, i32 %lane, ptr %latch, i32 %shape, i32 %line)
  br label %next
shared:
  %shared.rank = lshr i64 %low, 24
  %shared.own = icmp eq i64 %shared.rank, 0
  br i1 %shared.own, label %shared.here, label %shared.elsewhere
shared.elsewhere:
  %cluster.host = call i64 @farlane_cluster_place(ptr %warp, i64 %low, i32 %lane, i32 %shape, i32 %line)
  store i64 %cluster.host, ptr %slot
  br label %next
shared.here:
  %shared.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared
  %shared.base = load i64, ptr %shared.p
  %shared.size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared_size
  %shared.size = load i64, ptr %shared.size.p
  br label %bounded
local:
  %local.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.local
  %local.base = load i64, ptr %local.p
  %local.size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.local_size
  %local.size = load i64, ptr %local.size.p
  %lane64 = zext i32 %lane to i64
  %lane.offset = mul i64 %lane64, %local.size
  %lane.base = add i64 %local.base, %lane.offset
  br label %bounded
parameter:
  %write.bit = and i32 %shape, 256
  %write = icmp ne i32 %write.bit, 0
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %parameter.base = load i64, ptr %launch
  %parameter.bytes = load i64, ptr @farlane_parameter_bytes
  %parameter.size = select i1 %write, i64 0, i64 %parameter.bytes
  br label %bounded
bounded:
  %base = phi i64 [ %shared.base, %shared.here ], [ %lane.base, %local ], [ %parameter.base, %parameter ]
  %limit = phi i64 [ %shared.size, %shared.here ], [ %local.size, %local ], [ %parameter.size, %parameter ]
  call void @farlane_bounds(ptr %warp, i64 %low, i64 %limit, i64 %address, i32 %lane, i32 %shape, i32 %line)
  %host = add i64 %base, %low
  store i64 %host, ptr %slot
  br label %next
next:
  %moved.here = phi i1 [ %moved, %global ], [ false, %bounded ], [ false, %shared.elsewhere ]
  %gone.next = or i1 %gone, %moved.here
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %loop, label %passed
passed:
  br i1 %gone.next, label %again, label %done
again:
  store <32 x i64> %addresses, ptr %array, align 64
  br label %loop
done:
  %result = load <32 x i64>, ptr %array, align 64
  call void @farlane_witness(ptr %warp, <32 x i64> zeroinitializer, i32 0)
  ret <32 x i64> %result
}

; Faults unless %offset is aligned and [%offset, %offset + size) lies below %limit.
define internal void @farlane_bounds(ptr %warp, i64 %offset, i64 %limit, i64 %address, i32 %lane, i32 %shape, i32 %line) {
entry:
  %log32 = and i32 %shape, 255
  %log = zext i32 %log32 to i64
  %size = shl i64 1, %log
  %size32 = trunc i64 %size to i32
  %write.1 = lshr i32 %shape, 8
  %write = and i32 %write.1, 1
  %low.mask = sub i64 %size, 1
  %low = and i64 %offset, %low.mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %range, label %misaligned
misaligned:
  call void @farlane_fault(ptr %warp, i32 2, i64 %address, i32 %size32, i32 %write, i32 %lane, i32 %line)
  unreachable
range:
  %end = add i64 %offset, %size
  %ok.end = icmp ule i64 %end, %limit
  %ok.start = icmp ult i64 %offset, %limit
  %ok = and i1 %ok.end, %ok.start
  br i1 %ok, label %done, label %illegal
illegal:
  call void @farlane_fault(ptr %warp, i32 1, i64 %address, i32 %size32, i32 %write, i32 %lane, i32 %line)
  unreachable
done:
  ret void
}

; Reports the first bad lane of a shared or local access. %window: generic address of offset 0.
define internal void @farlane_out_of_bounds(ptr %warp, <32 x i64> %offsets, i32 %lanes, i64 %limit, i64 %window, i32 %shape, i32 %line) cold noinline {
entry:
  %array = alloca [32 x i64], align 64
  store <32 x i64> %offsets, ptr %array, align 64
  %window.1 = insertelement <32 x i64> poison, i64 %window, i32 0
  %window.all = shufflevector <32 x i64> %window.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %addresses = add <32 x i64> %offsets, %window.all
  call void @farlane_witness(ptr %warp, <32 x i64> %addresses, i32 %lanes)
  br label %loop
loop:
  %left = phi i32 [ %lanes, %entry ], [ %left.next, %loop ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %slot = getelementptr [32 x i64], ptr %array, i32 0, i32 %lane
  %offset = load i64, ptr %slot
  %address = add i64 %offset, %window
  call void @farlane_bounds(ptr %warp, i64 %offset, i64 %limit, i64 %address, i32 %lane, i32 %shape, i32 %line)
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}

; --- Barriers -------------------------------------------------------------------------------------------------------

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

; --- Blocks and warps -----------------------------------------------------------------------------------------------

; The fiber of one warp of a kernel with barriers. Warp states: 0 done, 1 ready, 2 waiting.
define internal void @farlane_warp_main(ptr %warp) noreturn {
entry:
  %areas = alloca [65536 x i8], align 64
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %index = load i32, ptr %index.p
  %first = icmp eq i32 %index, 0
  %team.warps = load i32, ptr @farlane_team_warps
  %teams = icmp ne i32 %team.warps, 0
  %leads = and i1 %first, %teams
  br i1 %leads, label %team, label %alone
team:
  %done = call i1 @farlane_team_fiber(ptr %warp, ptr %areas)
  br i1 %done, label %over, label %alone
alone:
  call void @farlane_kernel(ptr %warp)
  br label %over
over:
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  store i32 0, ptr %state.p
  %solo = load i1, ptr @farlane_solo
  br i1 %solo, label %without, label %gone
without:
  call void @farlane_meet_without(ptr %warp)
  br label %gone
gone:
  call void @farlane_pass(ptr %warp)
  unreachable
}

; The coordinates of a block.
define internal [3 x i32] @farlane_coordinates(ptr %launch, i64 %block) {
entry:
  %blocks.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster_blocks
  %blocks = load i32, ptr %blocks.p
  %clustered = icmp ugt i32 %blocks, 1
  br i1 %clustered, label %cluster, label %alone
cluster:
  %in.cluster = call [3 x i32] @farlane_cluster_coordinates(ptr %launch, i64 %block)
  ret [3 x i32] %in.cluster
alone:
  %gx.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grid, i32 0
  %gx32 = load i32, ptr %gx.p
  %gx = zext i32 %gx32 to i64
  %gy.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grid, i32 1
  %gy32 = load i32, ptr %gy.p
  %gy = zext i32 %gy32 to i64
  %x = urem i64 %block, %gx
  %rest = udiv i64 %block, %gx
  %y = urem i64 %rest, %gy
  %z = udiv i64 %rest, %gy
  %x32 = trunc i64 %x to i32
  %y32 = trunc i64 %y to i32
  %z32 = trunc i64 %z to i32
  %a = insertvalue [3 x i32] poison, i32 %x32, 0
  %b = insertvalue [3 x i32] %a, i32 %y32, 1
  %c = insertvalue [3 x i32] %b, i32 %z32, 2
  ret [3 x i32] %c
}

; Fills the state of a block's warp, or of one of its threads if each has a fiber of its own (solo.ll).
define internal void @farlane_setup(ptr %worker, ptr %launch, ptr %warp, i32 %place, [3 x i32] %block) {
  %solo = load i1, ptr @farlane_solo
  %of.place = lshr i32 %place, 5
  %index = select i1 %solo, i32 %of.place, i32 %place
  %place.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.place
  store i32 %place, ptr %place.p
  %members.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.members
  store i32 0, ptr %members.p
  %site.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.site
  store i32 0, ptr %site.p
  %path.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.path
  store i32 0, ptr %path.p
  store ptr %worker, ptr %warp
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  store ptr %launch, ptr %launch.p
  %ctaid.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.block
  store [3 x i32] %block, ptr %ctaid.p
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  store i32 %index, ptr %index.p
  %threads = load i32, ptr @farlane_threads
  %start = shl i32 %index, 5
  %here = sub i32 %threads, %start
  %whole = icmp uge i32 %here, 32
  %shift = and i32 %here, 31
  %partial.1 = shl i32 1, %shift
  %partial = sub i32 %partial.1, 1
  %lanes = select i1 %whole, i32 -1, i32 %partial
  %lane = and i32 %place, 31
  %alone = shl i32 1, %lane
  %mask = select i1 %solo, i32 %alone, i32 %lanes
  %mask.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.mask
  store i32 %mask, ptr %mask.p
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  store i32 1, ptr %state.p
  %local.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.local
  %local = load ptr, ptr %local.p
  %local.size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.local_size
  %local.size = load i64, ptr %local.size.p
  %start64 = zext i32 %start to i64
  %local.offset = mul i64 %start64, %local.size
  %warp.local = getelementptr i8, ptr %local, i64 %local.offset
  %warp.local.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.local
  store ptr %warp.local, ptr %warp.local.p
  %fibers = load i1, ptr @farlane_fibers
  %stack.index.32 = select i1 %fibers, i32 %place, i32 0
  %stack.index = zext i32 %stack.index.32 to i64
  %stacks.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.stacks
  %stacks = load i64, ptr %stacks.p
  %stack.size.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.stack_size
  %stack.size = load i64, ptr %stack.size.p
  %stack.offset = mul i64 %stack.index, %stack.size
  %limit = add i64 %stacks, %stack.offset
  %limit.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.limit
  store i64 %limit, ptr %limit.p
  %issued.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.issued
  store i32 0, ptr %issued.p
  %entry.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.entry
  store i32 0, ptr %entry.p
  %pending.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.pending
  store i32 0, ptr %pending.p
  ret void
}

; Takes the next chunk of blocks: first block, or -1.
define internal { i64, i64 } @farlane_take(ptr %launch) {
entry:
  %abort.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.abort
  %abort = load atomic i32, ptr %abort.p monotonic, align 4
  %stop = icmp ne i32 %abort, 0
  br i1 %stop, label %none, label %take
take:
  %chunk.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.chunk
  %chunk32 = load i32, ptr %chunk.p
  %chunk = zext i32 %chunk32 to i64
  %next.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.next_block
  %end.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.end_block
  %end = load i64, ptr %end.p
  %sharers.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.sharers
  %sharers32 = load i32, ptr %sharers.p
  %sharers = zext i32 %sharers32 to i64
  %fixed = icmp eq i64 %sharers, 0
  br i1 %fixed, label %whole, label %look
whole:
  %whole.first = atomicrmw add ptr %next.p, i64 %chunk acq_rel
  %past = icmp uge i64 %whole.first, %end
  br i1 %past, label %none, label %some
look:
  ; Threads that share a launch should be through with it at the same time: the last ones take little.
  %grain.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grain
  %grain32 = load i32, ptr %grain.p
  %grain = zext i32 %grain32 to i64
  %seen = load atomic i64, ptr %next.p monotonic, align 8
  br label %share
share:
  %share.first = phi i64 [ %seen, %look ], [ %now, %part ]
  %share.past = icmp uge i64 %share.first, %end
  br i1 %share.past, label %none, label %part
part:
  %left = sub i64 %end, %share.first
  %even = udiv i64 %left, %sharers
  %most = call i64 @llvm.umin.i64(i64 %even, i64 %chunk)
  %over = urem i64 %most, %grain
  %rounded = sub i64 %most, %over
  %size = call i64 @llvm.umax.i64(i64 %rounded, i64 %grain)
  %share.last = add i64 %share.first, %size
  %exchange = cmpxchg ptr %next.p, i64 %share.first, i64 %share.last acq_rel monotonic
  %now = extractvalue { i64, i1 } %exchange, 0
  %taken = extractvalue { i64, i1 } %exchange, 1
  br i1 %taken, label %some, label %share
some:
  %first = phi i64 [ %whole.first, %whole ], [ %share.first, %part ]
  %taken.size = phi i64 [ %chunk, %whole ], [ %size, %part ]
  %last.1 = add i64 %first, %taken.size
  %last = call i64 @llvm.umin.i64(i64 %last.1, i64 %end)
  %a = insertvalue { i64, i64 } poison, i64 %first, 0
  %b = insertvalue { i64, i64 } %a, i64 %last, 1
  ret { i64, i64 } %b
none:
  ret { i64, i64 } { i64 0, i64 0 }
}

; The only fiber of a kernel without barriers: all blocks that this worker gets, warp after warp.
define internal void @farlane_simple_main(ptr %warp) noreturn {
entry:
  %areas = alloca [65536 x i8], align 64
  %worker = load ptr, ptr %warp
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %warp.count = load i32, ptr @farlane_warps
  br label %take
take:
  %range = call { i64, i64 } @farlane_take(ptr %launch)
  %first = extractvalue { i64, i64 } %range, 0
  %last = extractvalue { i64, i64 } %range, 1
  %none = icmp eq i64 %last, 0
  br i1 %none, label %done, label %block
block:
  %index = phi i64 [ %first, %take ], [ %index.next, %block.next ]
  %coordinates = call [3 x i32] @farlane_coordinates(ptr %launch, i64 %index)
  call void @farlane_watch_block(ptr %worker)
  %team.warps = load i32, ptr @farlane_team_warps
  %teams = icmp ne i32 %team.warps, 0
  br i1 %teams, label %team, label %warps
team:
  call void @farlane_team_block(ptr %worker, ptr %launch, ptr %warp, ptr %areas, [3 x i32] %coordinates)
  br label %block.next
warps:
  %w = phi i32 [ 0, %block ], [ %w.next, %warps ]
  call void @farlane_setup(ptr %worker, ptr %launch, ptr %warp, i32 %w, [3 x i32] %coordinates)
  call void @farlane_kernel(ptr %warp)
  %w.next = add i32 %w, 1
  %w.more = icmp ult i32 %w.next, %warp.count
  br i1 %w.more, label %warps, label %block.next
block.next:
  %index.next = add i64 %index, 1
  %more = icmp ult i64 %index.next, %last
  br i1 %more, label %block, label %take
done:
  call void @farlane_to_scheduler(ptr %warp)
  unreachable
}

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
  %team.warps = load i32, ptr @farlane_team_warps
  %alone = icmp eq i32 %team.warps, 0
  %s.more.1 = icmp ult i32 %s.next, %warp.count
  %s.more = and i1 %s.more.1, %alone
  br i1 %s.more, label %setup, label %rest
rest:
  ; The first warp runs for its team. The others are started where it ends early (farlane_team_fiber).
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
  %team.ended = icmp eq i32 %live, -1
  br i1 %team.ended, label %finished, label %passed
passed:
  ; Warps pass their turn on: the last one that had it.
  %last = load i32, ptr %last.p
  br label %turn.next
turn.next:
  %w.had = phi i32 [ %w, %turn ], [ %last, %passed ]
  %w.next = add i32 %w.had, 1
  %w.more = icmp ult i32 %w.next, %warp.count
  br i1 %w.more, label %turn, label %settle
settle:
  %released = call i1 @farlane_release(ptr %worker)
  br i1 %released, label %round.abort, label %count
count:
  %c = phi i32 [ 0, %settle ], [ %c.next, %count ]
  %waiting = phi i1 [ false, %settle ], [ %waiting.next, %count ]
  %ready = phi i1 [ false, %settle ], [ %ready.next, %count ]
  %held = phi i1 [ false, %settle ], [ %held.next, %count ]
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
  %together.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.together
  %together = load ptr, ptr %together.p
  %apart = icmp eq ptr %together, null
  br i1 %apart, label %groups, label %together.run
together.run:
  %together.end.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.end_block
  %together.end = load i64, ptr %together.end.p
  %together.status = call i32 @farlane_together(ptr %launch, ptr %worker, ptr %together, i64 0, i64 %together.end)
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
  br i1 %in.order, label %beside.test, label %crowd
beside.test:
  %abreast.blocks = load i32, ptr @farlane_abreast_blocks
  %abreast.used = icmp ne i32 %abreast.blocks, 0
  %beside.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.beside
  %beside = load ptr, ptr %beside.p
  %beside.there = icmp ne ptr %beside, null
  %abreast = and i1 %abreast.used, %beside.there
  br i1 %abreast, label %abreast.run, label %take
abreast.run:
  %abreast.status = call i32 @farlane_abreast(ptr %launch, ptr %worker, ptr %beside)
  br label %done
crowd:
  %crowd.status = call i32 @farlane_crowd(ptr %launch, ptr %worker)
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
