; Generic addresses, lane by lane, and accesses beyond the end of a space.

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
                                   i64 258, label %local ]
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
                                    i64 258, label %local
                                    i64 260, label %parameter ]
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
