; Warp groups: warps that run as one (warp_groups.py). kernel.py writes @farlane_group, or one that does nothing where a kernel has no warp group's code, and the
; constants @farlane_row, @farlane_group_warps (0: none) and @farlane_group_latch, the offset of the latch whose first word counts warp groups that ended early.
;
; @farlane_group(warp, areas) runs the warps from the given one's index on. 0: they are done; else where each goes on alone (Warp.entry; what is alive there lies
; in the area, at 256 bytes for each warp), with 65536 added when it has not been worth it.

; The same, and 1, the start, without trying when many warp groups of this launch have ended early. Each that was not tried counts one off, so that what holds
; for one part of a grid (the blocks at an edge, which come one after the other) does not decide about the rest: where all end early, one in nine is tried.
define internal i32 @farlane_group_try(ptr %worker, ptr %warp, ptr %areas) {
entry:
  %latches.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.latches
  %latches = load ptr, ptr %latches.p
  %offset = load i64, ptr @farlane_group_latch
  %ended.p = getelementptr i8, ptr %latches, i64 %offset
  %ended = load i32, ptr %ended.p
  %many = icmp ugt i32 %ended, 64
  br i1 %many, label %alone, label %together
alone:
  %fewer = sub i32 %ended, 1
  store i32 %fewer, ptr %ended.p
  ret i32 1
together:
  %result = call i32 @farlane_group(ptr %warp, ptr %areas)
  %done = icmp eq i32 %result, 0
  %early = icmp ugt i32 %result, 65535
  %now = load i32, ptr %ended.p
  %less = call i32 @llvm.usub.sat.i32(i32 %now, i32 1)
  %more = add i32 %now, 8
  %late = select i1 %done, i32 %less, i32 %now
  %next = select i1 %early, i32 %more, i32 %late
  store i32 %next, ptr %ended.p
  %entry.at = and i32 %result, 65535
  ret i32 %entry.at
}

; Where a warp that its warp group has left goes on.
define internal void @farlane_group_left(ptr %warp, ptr %areas, i32 %number, i32 %entry) {
  %entry.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.entry
  store i32 %entry, ptr %entry.p
  %area.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.area
  %at = shl i32 %number, 8
  %area = getelementptr i8, ptr %areas, i32 %at
  store ptr %area, ptr %area.p
  ret void
}

; A block without barriers: its warp groups one after the other. %areas: 65536 bytes.
define internal void @farlane_group_block(ptr %worker, ptr %launch, ptr %warp, ptr %areas, [3 x i32] %block) {
entry:
  %warps = load i32, ptr @farlane_warps
  %size = load i32, ptr @farlane_group_warps
  br label %warp.group
warp.group:
  %first = phi i32 [ 0, %entry ], [ %end, %warp.group.next ]
  %end = add i32 %first, %size
  call void @farlane_setup(ptr %worker, ptr %launch, ptr %warp, i32 %first, [3 x i32] %block)
  %entry.at = call i32 @farlane_group_try(ptr %worker, ptr %warp, ptr %areas)
  %done = icmp eq i32 %entry.at, 0
  br i1 %done, label %warp.group.next, label %one
one:
  %number = phi i32 [ 0, %warp.group ], [ %number.next, %one ]
  %index = add i32 %first, %number
  call void @farlane_setup(ptr %worker, ptr %launch, ptr %warp, i32 %index, [3 x i32] %block)
  call void @farlane_group_left(ptr %warp, ptr %areas, i32 %number, i32 %entry.at)
  call void @farlane_kernel(ptr %warp)
  %number.next = add i32 %number, 1
  %more = icmp ult i32 %number.next, %size
  br i1 %more, label %one, label %warp.group.next
warp.group.next:
  %on = icmp ult i32 %end, %warps
  br i1 %on, label %warp.group, label %over
over:
  ret void
}

; A block with barriers, on the fiber of its first warp. Returns whether the whole block is done; else each warp goes on alone, and the others are started.
define internal i1 @farlane_group_fiber(ptr %warp, ptr %areas) {
entry:
  %worker = load ptr, ptr %warp
  %warps = load i32, ptr @farlane_warps
  %entry.at = call i32 @farlane_group_try(ptr %worker, ptr %warp, ptr %areas)
  %done = icmp eq i32 %entry.at, 0
  br i1 %done, label %ended, label %left
ended:
  ; No warp is left to look for: farlane_block_round.
  %live.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.live
  store i32 -1, ptr %live.p
  br label %over
left:
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %ctaid.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.block
  %block = load [3 x i32], ptr %ctaid.p
  call void @farlane_group_left(ptr %warp, ptr %areas, i32 0, i32 %entry.at)
  br label %one
one:
  %number = phi i32 [ 1, %left ], [ %number.next, %one ]
  %each = getelementptr %WarpState, ptr %warp, i32 %number
  call void @farlane_warp_start(ptr %worker, ptr %launch, ptr %each, i32 %number, [3 x i32] %block)
  call void @farlane_group_left(ptr %each, ptr %areas, i32 %number, i32 %entry.at)
  %number.next = add i32 %number, 1
  %more = icmp ult i32 %number.next, %warps
  br i1 %more, label %one, label %over
over:
  ret i1 %done
}

; Calls what reports an access for each warp of a warp group in turn: lane l of row r is at base + step * r + stride * l. For the checks of accesses that a
; warp group makes together.
define internal <32 x i64> @farlane_group_addresses(i64 %base, i64 %step, i64 %stride, i32 %number) {
  %row.32 = load i32, ptr @farlane_row
  %start = shl i32 %number, 5
  %start.1 = insertelement <32 x i32> poison, i32 %start, i32 0
  %starts = shufflevector <32 x i32> %start.1, <32 x i32> poison, <32 x i32> zeroinitializer
  %lanes = add <32 x i32> %starts, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %row.1 = insertelement <32 x i32> poison, i32 %row.32, i32 0
  %rows = shufflevector <32 x i32> %row.1, <32 x i32> poison, <32 x i32> zeroinitializer
  %down.32 = udiv <32 x i32> %lanes, %rows
  %along.32 = urem <32 x i32> %lanes, %rows
  %down = zext <32 x i32> %down.32 to <32 x i64>
  %along = zext <32 x i32> %along.32 to <32 x i64>
  %step.1 = insertelement <32 x i64> poison, i64 %step, i32 0
  %steps = shufflevector <32 x i64> %step.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %stride.1 = insertelement <32 x i64> poison, i64 %stride, i32 0
  %strides = shufflevector <32 x i64> %stride.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %base.1 = insertelement <32 x i64> poison, i64 %base, i32 0
  %bases = shufflevector <32 x i64> %base.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %a = mul <32 x i64> %down, %steps
  %b = mul <32 x i64> %along, %strides
  %ab = add <32 x i64> %a, %b
  %all = add <32 x i64> %ab, %bases
  ret <32 x i64> %all
}

define internal void @farlane_group_miss(ptr %warp, i64 %base, i64 %step, i64 %stride, ptr %latch, i32 %shape, i32 %line) cold noinline {
entry:
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %first = load i32, ptr %index.p
  %count = load i32, ptr @farlane_group_warps
  br label %one
one:
  %number = phi i32 [ 0, %entry ], [ %next, %one ]
  %index = add i32 %first, %number
  store i32 %index, ptr %index.p
  %addresses = call <32 x i64> @farlane_group_addresses(i64 %base, i64 %step, i64 %stride, i32 %number)
  call void @farlane_miss(ptr %warp, <32 x i64> %addresses, i32 -1, ptr %latch, i32 %shape, i32 %line)
  %next = add i32 %number, 1
  %more = icmp ult i32 %next, %count
  br i1 %more, label %one, label %over
over:
  store i32 %first, ptr %index.p
  ret void
}

define internal void @farlane_group_outside(ptr %warp, i64 %base, i64 %step, i64 %stride, i64 %limit, i64 %window, i32 %shape, i32 %line) cold noinline {
entry:
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %first = load i32, ptr %index.p
  %count = load i32, ptr @farlane_group_warps
  br label %one
one:
  %number = phi i32 [ 0, %entry ], [ %next, %one ]
  %index = add i32 %first, %number
  store i32 %index, ptr %index.p
  %addresses = call <32 x i64> @farlane_group_addresses(i64 %base, i64 %step, i64 %stride, i32 %number)
  call void @farlane_out_of_bounds(ptr %warp, <32 x i64> %addresses, i32 -1, i64 %limit, i64 %window, i32 %shape, i32 %line)
  %next = add i32 %number, 1
  %more = icmp ult i32 %next, %count
  br i1 %more, label %one, label %over
over:
  store i32 %first, ptr %index.p
  ret void
}
