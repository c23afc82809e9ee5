; Which pages a warp instruction touches: one entry per distinct page, into the worker's buffer (touches.py).
;
; Only kernels compiled with Options.touches have it. An entry is two words: page | warp << 42 | write << 47, and
; block << 32 | warp instructions that this warp has issued before (modulo 2^32). A full buffer is handed to its callback, on the stack of the CPU thread
; as requests are (services.ll). What lies outside of the window (shared, local and parameter memory behind generic addresses) is left out.

; From here on until the next begin, a page is entered once.
define internal void @farlane_touch_begin(ptr %warp) {
entry:
  %worker = load ptr, ptr %warp
  %touches.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.touches
  %touches = load ptr, ptr %touches.p
  %off = icmp eq ptr %touches, null
  br i1 %off, label %done, label %room
room:
  %used.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.used
  %used = load i64, ptr %used.p
  %capacity.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.capacity
  %capacity = load i64, ptr %capacity.p
  %begin.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.begin
  store i64 %used, ptr %begin.p
  %wanted = add i64 %used, 1024
  %full = icmp ugt i64 %wanted, %capacity
  br i1 %full, label %spill, label %done
spill:
  call void @farlane_touch_spill(ptr %worker, ptr %touches)
  br label %done
done:
  ret void
}

define internal void @farlane_touch_spill(ptr %worker, ptr %touches) cold noinline {
  %callback.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.callback
  %callback = load ptr, ptr %callback.p
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  %scheduler = load i64, ptr %scheduler.p
  call void @farlane_elsewhere(ptr %callback, ptr %touches, i64 %scheduler)
  %used.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.used
  store i64 0, ptr %used.p
  %begin.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.begin
  store i64 0, ptr %begin.p
  ret void
}

; The active lanes' addresses of one access. %shape: bit 0 a write, bit 1 the same instruction as the access before.
define internal void @farlane_touch(ptr %warp, <32 x i64> %addresses, i32 %lanes, i32 %shape) noinline {
entry:
  %array = alloca [32 x i64], align 64
  %worker = load ptr, ptr %warp
  %touches.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.touches
  %touches = load ptr, ptr %touches.p
  %off = icmp eq ptr %touches, null
  br i1 %off, label %done, label %on
on:
  %more = and i32 %shape, 2
  %fresh = icmp eq i32 %more, 0
  br i1 %fresh, label %begin, label %ready
begin:
  call void @farlane_touch_begin(ptr %warp)
  br label %ready
ready:
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %base.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.window_base
  %base = load i64, ptr %base.p
  %size.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.window_size
  %size = load i64, ptr %size.p
  %base.1 = insertelement <32 x i64> poison, i64 %base, i32 0
  %bases = shufflevector <32 x i64> %base.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %size.1 = insertelement <32 x i64> poison, i64 %size, i32 0
  %sizes = shufflevector <32 x i64> %size.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %offsets = sub <32 x i64> %addresses, %bases
  %inside = icmp ult <32 x i64> %offsets, %sizes
  %inside.bits = bitcast <32 x i1> %inside to i32
  %bits = and i32 %inside.bits, %lanes
  %none = icmp eq i32 %bits, 0
  br i1 %none, label %done, label %some
some:
  %shift.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.page_shift
  %shift32 = load i32, ptr %shift.p
  %shift = zext i32 %shift32 to i64
  %shift.1 = insertelement <32 x i64> poison, i64 %shift, i32 0
  %shifts = shufflevector <32 x i64> %shift.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %pages = lshr <32 x i64> %addresses, %shifts
  store <32 x i64> %pages, ptr %array, align 64
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %index = load i32, ptr %index.p
  %write = and i32 %shape, 1
  %write.up = shl i32 %write, 5
  %who32 = or i32 %index, %write.up
  %who = zext i32 %who32 to i64
  %who.up = shl i64 %who, 42
  %x.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.block, i32 0
  %x = load i32, ptr %x.p
  %y.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.block, i32 1
  %y = load i32, ptr %y.p
  %z.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.block, i32 2
  %z = load i32, ptr %z.p
  %gx.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grid, i32 0
  %gx = load i32, ptr %gx.p
  %gy.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grid, i32 1
  %gy = load i32, ptr %gy.p
  %zy = mul i32 %z, %gy
  %rows = add i32 %zy, %y
  %before = mul i32 %rows, %gx
  %block = add i32 %before, %x
  %block64 = zext i32 %block to i64
  %block.up = shl i64 %block64, 32
  %issued.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.issued
  %issued = load i32, ptr %issued.p
  %issued64 = zext i32 %issued to i64
  %when = or i64 %block.up, %issued64
  %entries.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.entries
  %entries = load ptr, ptr %entries.p
  %used.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.used
  %begin.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.begin
  br label %page
page:
  %left = phi i32 [ %bits, %some ], [ %left.next, %next ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %slot = getelementptr [32 x i64], ptr %array, i32 0, i32 %lane
  %page.number = load i64, ptr %slot
  %page.1 = insertelement <32 x i64> poison, i64 %page.number, i32 0
  %page.all = shufflevector <32 x i64> %page.1, <32 x i64> poison, <32 x i32> zeroinitializer
  %same = icmp eq <32 x i64> %pages, %page.all
  %same.bits = bitcast <32 x i1> %same to i32
  %others = xor i32 %same.bits, -1
  %left.next = and i32 %left, %others
  %word = or i64 %page.number, %who.up
  %used = load i64, ptr %used.p
  br i1 %fresh, label %enter, label %search.start
search.start:
  %first = load i64, ptr %begin.p
  br label %search
search:
  %at = phi i64 [ %first, %search.start ], [ %at.next, %search.next ]
  %end = icmp uge i64 %at, %used
  br i1 %end, label %space, label %look
look:
  %look.index = shl i64 %at, 1
  %look.p = getelementptr i64, ptr %entries, i64 %look.index
  %seen = load i64, ptr %look.p
  %differs = xor i64 %seen, %page.number
  %seen.page = and i64 %differs, 4398046511103
  %known = icmp eq i64 %seen.page, 0
  br i1 %known, label %merge, label %search.next
merge:
  %merged = or i64 %seen, %who.up
  store i64 %merged, ptr %look.p
  br label %next
search.next:
  %at.next = add i64 %at, 1
  br label %search
space:
  ; begin made room for an instruction; one of very many accesses may still fill it, and then sees a page twice.
  %capacity.p = getelementptr %TouchBuffer, ptr %touches, i32 0, i32 TouchBuffer.capacity
  %capacity = load i64, ptr %capacity.p
  %full = icmp uge i64 %used, %capacity
  br i1 %full, label %spill, label %enter
spill:
  call void @farlane_touch_spill(ptr %worker, ptr %touches)
  br label %enter
enter:
  %here = load i64, ptr %used.p
  %here.index = shl i64 %here, 1
  %here.p = getelementptr i64, ptr %entries, i64 %here.index
  store i64 %word, ptr %here.p
  %when.p = getelementptr i64, ptr %here.p, i64 1
  store i64 %when, ptr %when.p
  %here.next = add i64 %here, 1
  store i64 %here.next, ptr %used.p
  br label %next
next:
  %again = icmp ne i32 %left.next, 0
  br i1 %again, label %page, label %done
done:
  ret void
}
