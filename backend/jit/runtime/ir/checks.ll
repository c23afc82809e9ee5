; What kernels compiled with Options.checks do beside their work (checks.py): exact bounds of allocations, races on shared memory,
; what is read before it was written.
;
; Findings go into the table of the launch's %Findings, one record for each place in the program; the launch's maker reads it afterwards.
; One worker runs such a launch: nothing here is atomic. Structures: runtime/checks.py.

define internal ptr @farlane_check_of(ptr %launch) alwaysinline {
  %p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.check
  %check = load ptr, ptr %p
  ret ptr %check
}

; --- Bounds ---------------------------------------------------------------------------------------------------------

; The allocation that holds [%address, %address + %size): its start, rounded up to the size (a power of two), and its end. { 0, 0 }: none.
define internal { i64, i64 } @farlane_held(ptr %launch, i64 %address, i64 %size) noinline {
entry:
  %check = call ptr @farlane_check_of(ptr %launch)
  %ranges = load ptr, ptr %check
  %count.p = getelementptr %Findings, ptr %check, i32 0, i32 Findings.count
  %count = load i64, ptr %count.p
  br label %search
search:
  %lo = phi i64 [ 0, %entry ], [ %lo.next, %step ]
  %hi = phi i64 [ %count, %entry ], [ %hi.next, %step ]
  %open = icmp ult i64 %lo, %hi
  br i1 %open, label %step, label %found
step:
  %sum = add i64 %lo, %hi
  %mid = lshr i64 %sum, 1
  %mid.p = getelementptr { i64, i64 }, ptr %ranges, i64 %mid
  %mid.start = load i64, ptr %mid.p
  %above = icmp ugt i64 %mid.start, %address
  %mid.next = add i64 %mid, 1
  %lo.next = select i1 %above, i64 %lo, i64 %mid.next
  %hi.next = select i1 %above, i64 %mid, i64 %hi
  br label %search
found:
  %none = icmp eq i64 %lo, 0
  br i1 %none, label %no, label %test
test:
  %index = sub i64 %lo, 1
  %start.p = getelementptr { i64, i64 }, ptr %ranges, i64 %index
  %start = load i64, ptr %start.p
  %end.p = getelementptr { i64, i64 }, ptr %ranges, i64 %index, i32 1
  %end = load i64, ptr %end.p
  %before = icmp ult i64 %address, %end
  %room = sub i64 %end, %address
  %fits = icmp uge i64 %room, %size
  %ok = and i1 %before, %fits
  br i1 %ok, label %yes, label %no
yes:
  %low.bits = sub i64 %size, 1
  %up = add i64 %start, %low.bits
  %high.bits = xor i64 %low.bits, -1
  %aligned = and i64 %up, %high.bits
  %a = insertvalue { i64, i64 } poison, i64 %aligned, 0
  %b = insertvalue { i64, i64 } %a, i64 %end, 1
  ret { i64, i64 } %b
no:
  ret { i64, i64 } zeroinitializer
}

; What the active lanes access, before it is checked: the launch may end here.
define internal void @farlane_witness(ptr %warp, <32 x i64> %addresses, i32 %lanes) noinline {
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %check = call ptr @farlane_check_of(ptr %launch)
  %lanes.p = getelementptr %Findings, ptr %check, i32 0, i32 Findings.lanes
  store i32 %lanes, ptr %lanes.p
  %addresses.p = getelementptr %Findings, ptr %check, i32 0, i32 Findings.addresses
  store <32 x i64> %addresses, ptr %addresses.p, align 8
  ret void
}

; --- Records --------------------------------------------------------------------------------------------------------

; Counts a finding: a new record for a new kind and pair of lines.
define internal void @farlane_record(ptr %warp, i32 %kind, i32 %line, i32 %other.line, i32 %size, i32 %thread, i32 %other.thread, i64 %address, i64 %times) noinline {
entry:
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %check = call ptr @farlane_check_of(ptr %launch)
  %used.p = getelementptr %Findings, ptr %check, i32 0, i32 Findings.used
  %used = load i32, ptr %used.p
  %records.p = getelementptr %Findings, ptr %check, i32 0, i32 Findings.records
  %records = load ptr, ptr %records.p
  br label %search
search:
  %i = phi i32 [ 0, %entry ], [ %i.next, %on ]
  %more = icmp ult i32 %i, %used
  br i1 %more, label %compare, label %new
compare:
  %r = getelementptr %Record, ptr %records, i32 %i
  %r.kind = load i32, ptr %r
  %r.line.p = getelementptr %Record, ptr %r, i32 0, i32 Record.line
  %r.line = load i32, ptr %r.line.p
  %r.other.p = getelementptr %Record, ptr %r, i32 0, i32 Record.other_line
  %r.other = load i32, ptr %r.other.p
  %same.1 = icmp eq i32 %r.kind, %kind
  %same.2 = icmp eq i32 %r.line, %line
  %same.3 = icmp eq i32 %r.other, %other.line
  %same.12 = and i1 %same.1, %same.2
  %same = and i1 %same.12, %same.3
  br i1 %same, label %count, label %on
on:
  %i.next = add i32 %i, 1
  br label %search
count:
  %count.p = getelementptr %Record, ptr %r, i32 0, i32 Record.count
  %count.old = load i64, ptr %count.p
  %count.new = add i64 %count.old, %times
  store i64 %count.new, ptr %count.p
  ret void
new:
  %full = icmp uge i32 %used, 100
  br i1 %full, label %lose, label %add
lose:
  %lost.p = getelementptr %Findings, ptr %check, i32 0, i32 Findings.lost
  %lost = load i32, ptr %lost.p
  %lost.next = add i32 %lost, 1
  store i32 %lost.next, ptr %lost.p
  ret void
add:
  %used.next = add i32 %used, 1
  store i32 %used.next, ptr %used.p
  %n = getelementptr %Record, ptr %records, i32 %used
  store i32 %kind, ptr %n
  %n1 = getelementptr %Record, ptr %n, i32 0, i32 Record.line
  store i32 %line, ptr %n1
  %n2 = getelementptr %Record, ptr %n, i32 0, i32 Record.other_line
  store i32 %other.line, ptr %n2
  %n3 = getelementptr %Record, ptr %n, i32 0, i32 Record.size
  store i32 %size, ptr %n3
  %n4 = getelementptr %Record, ptr %n, i32 0, i32 Record.thread
  store i32 %thread, ptr %n4
  %n5 = getelementptr %Record, ptr %n, i32 0, i32 Record.other_thread
  store i32 %other.thread, ptr %n5
  %ctaid.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.block
  %ctaid = load [3 x i32], ptr %ctaid.p
  %n6 = getelementptr %Record, ptr %n, i32 0, i32 Record.block
  store [3 x i32] %ctaid, ptr %n6
  %n8 = getelementptr %Record, ptr %n, i32 0, i32 Record.address
  store i64 %address, ptr %n8
  %n9 = getelementptr %Record, ptr %n, i32 0, i32 Record.count
  store i64 %times, ptr %n9
  ret void
}

; Lanes read %size bytes of which some were never written.
define internal void @farlane_unwritten(ptr %warp, <32 x i64> %addresses, i32 %lanes, i32 %size, i32 %line) cold noinline {
  %lane = call i32 @llvm.cttz.i32(i32 %lanes, i1 false)
  %address = extractelement <32 x i64> %addresses, i32 %lane
  %times = call i32 @llvm.ctpop.i32(i32 %lanes)
  %times64 = zext i32 %times to i64
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %index = load i32, ptr %index.p
  %first = shl i32 %index, 5
  %thread = add i32 %first, %lane
  call void @farlane_record(ptr %warp, i32 4, i32 %line, i32 0, i32 %size, i32 %thread, i32 0, i64 %address, i64 %times64)
  ret void
}
