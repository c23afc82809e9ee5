; Whether a global access may be made: the flags of its pages, the latch of its site, and the host where pages are held.

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
  %run = call { i64, i64 } @farlane_host_mapping(ptr %launch, i64 %address, i64 %size)
  %run.end = extractvalue { i64, i64 } %run, 1
  %found = icmp ne i64 %run.end, 0
  ret i1 %found
never:
  ret i1 false
}

; The run of pages outside of the window that is window memory at another address, and holds [%address, %address + %size): its start and its end.
; { 0, 0 }: none. Such pages may be read and written.
define internal { i64, i64 } @farlane_host_mapping(ptr %launch, i64 %address, i64 %size) cold noinline {
entry:
  %mappings.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.host_mappings
  %mappings = load ptr, ptr %mappings.p
  %none = icmp eq ptr %mappings, null
  br i1 %none, label %no, label %count
count:
  %number = load i64, ptr %mappings
  br label %look
look:
  %index = phi i64 [ 0, %count ], [ %next, %test ]
  %more = icmp ult i64 %index, %number
  br i1 %more, label %test, label %no
test:
  %next = add i64 %index, 1
  %low.p = getelementptr %HostMappings, ptr %mappings, i32 0, i32 HostMappings.runs, i64 %index, i32 Run.start
  %low = load i64, ptr %low.p
  %end.p = getelementptr %HostMappings, ptr %mappings, i32 0, i32 HostMappings.runs, i64 %index, i32 Run.end
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
  br i1 %in.window, label %flags.walk, label %mapping
mapping:
  %run = call { i64, i64 } @farlane_host_mapping(ptr %launch, i64 %address, i64 %size)
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
  %low.run = phi i64 [ %low.page.address, %walked ], [ %run.low, %mapping ]
  %end.run = phi i64 [ %end.page.address, %walked ], [ %run.end, %mapping ]
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
