; Races on shared memory: kernels compiled with Options.checks note who has accessed what (runtime/checks.py).

;
; A shadow entry for each granule of a block's shared memory: the last write, and two reads of different threads since. Each is one word:
; block epoch << 48 | warp epoch << 32 | thread << 22 | strong << 21 | line. Accesses of different block epochs are ordered. A warp's epoch goes on
; at its barriers and where its lanes exchange values: of one warp, accesses are ordered with a barrier between them, and reads in
; earlier epochs are over. Block epochs go on from block to block, so that entries need not be cleared.

; A new block, or a barrier has completed: everything before is ordered before everything after.
define internal void @farlane_watch_block(ptr %worker) noinline {
entry:
  %shadow.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shadow
  %shadow = load ptr, ptr %shadow.p
  %off = icmp eq ptr %shadow, null
  br i1 %off, label %done, label %on
on:
  %epoch = load i64, ptr %shadow
  %next = add i64 %epoch, 1
  %late = icmp ugt i64 %next, 65535
  br i1 %late, label %wrap, label %step
wrap:
  %size.p = getelementptr %Shadow, ptr %shadow, i32 0, i32 Shadow.size
  %size = load i64, ptr %size.p
  call void @llvm.memset.p0.i64(ptr %shadow, i8 0, i64 %size, i1 false)
  store i64 %size, ptr %size.p
  br label %step
step:
  %new = phi i64 [ %next, %on ], [ 1, %wrap ]
  store i64 %new, ptr %shadow
  %warps.p = getelementptr %Shadow, ptr %shadow, i32 0, i32 Shadow.turns
  call void @llvm.memset.p0.i64(ptr %warps.p, i8 0, i64 256, i1 false)
  br label %done
done:
  ret void
}

define internal void @farlane_watch_fence(ptr %warp) noinline {
  %worker = load ptr, ptr %warp
  call void @farlane_watch_block(ptr %worker)
  ret void
}

; bar.warp.sync, or (not %barrier) a shuffle, a vote and the like
define internal void @farlane_watch_warp(ptr %warp, i1 %barrier) noinline {
entry:
  %worker = load ptr, ptr %warp
  %shadow.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shadow
  %shadow = load ptr, ptr %shadow.p
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %index = load i32, ptr %index.p
  %epoch.p = getelementptr %Shadow, ptr %shadow, i32 0, i32 Shadow.turns, i32 %index
  %epoch = load i32, ptr %epoch.p
  %next = add i32 %epoch, 1
  %late = icmp ugt i32 %next, 65535
  br i1 %late, label %wrap, label %step
step:
  store i32 %next, ptr %epoch.p
  br i1 %barrier, label %order, label %done
order:
  %since.p = getelementptr %Shadow, ptr %shadow, i32 0, i32 Shadow.barriers, i32 %index
  store i32 %next, ptr %since.p
  br label %done
wrap:
  call void @farlane_watch_block(ptr %worker)
  br label %done
done:
  ret void
}

; Whether %a and an earlier access %b to one granule are a race, at least one being a write. %since: the first epoch of the warp (in its place in an entry)
; from which on accesses are not ordered before %a.
define internal i1 @farlane_conflict(i64 %a, i64 %b, i64 %since) alwaysinline {
  %both = xor i64 %a, %b
  %epochs = lshr i64 %both, 48
  %same.epoch = icmp eq i64 %epochs, 0
  %threads = and i64 %both, 4290772992
  %different = icmp ne i64 %threads, 0
  %strong.1 = and i64 %a, %b
  %strong.2 = and i64 %strong.1, 2097152
  %weak = icmp eq i64 %strong.2, 0
  %warps = and i64 %both, 4160749568
  %other.warp = icmp ne i64 %warps, 0
  %turn = and i64 %b, 281470681743360
  %late = icmp uge i64 %turn, %since
  %unordered = or i1 %other.warp, %late
  %1 = and i1 %same.epoch, %different
  %2 = and i1 %1, %weak
  %3 = and i1 %2, %unordered
  ret i1 %3
}

define internal void @farlane_hazard(ptr %warp, i32 %kind, i64 %me, i64 %other, i64 %offset, i32 %size) cold noinline {
  %line64 = and i64 %me, 2097151
  %line = trunc i64 %line64 to i32
  %other.line64 = and i64 %other, 2097151
  %other.line = trunc i64 %other.line64 to i32
  %thread.1 = lshr i64 %me, 22
  %thread.2 = and i64 %thread.1, 1023
  %thread = trunc i64 %thread.2 to i32
  %other.1 = lshr i64 %other, 22
  %other.2 = and i64 %other.1, 1023
  %other.thread = trunc i64 %other.2 to i32
  call void @farlane_record(ptr %warp, i32 %kind, i32 %line, i32 %other.line, i32 %size, i32 %thread, i32 %other.thread, i64 %offset, i64 1)
  ret void
}

; Whether a lane's store changes nothing. %values: the stored elements (1 << %layout bytes each) of all lanes, one vector behind the other.
define internal i1 @farlane_same_value(ptr %memory, i64 %size, i32 %lane, ptr %values, i32 %layout) cold noinline {
entry:
  %unknown = icmp eq ptr %values, null
  br i1 %unknown, label %no, label %start
start:
  %log = zext i32 %layout to i64
  %width = shl i64 1, %log
  %low.bits = sub i64 %width, 1
  %lane64 = zext i32 %lane to i64
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %i.next, %next ]
  %element = lshr i64 %i, %log
  %row = shl i64 %element, 5
  %place = add i64 %row, %lane64
  %place.bytes = shl i64 %place, %log
  %inside = and i64 %i, %low.bits
  %at = add i64 %place.bytes, %inside
  %new.p = getelementptr i8, ptr %values, i64 %at
  %new = load i8, ptr %new.p
  %old.p = getelementptr i8, ptr %memory, i64 %i
  %old = load i8, ptr %old.p
  %same = icmp eq i8 %new, %old
  br i1 %same, label %next, label %no
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %size
  br i1 %more, label %loop, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; One warp instruction on (perhaps) shared memory, in front of it: compares each lane's access with what the shadow knows, then enters all of
; them, so that the lanes of one instruction are no race (reads are entered at once: they do not race). %addresses are generic, those of other
; spaces are left out. Of neighbouring lanes that read the same, the first and the last stand for all: whichever thread wrote it, one of them is another thread.
; %shape: bits 0-7 log2 of the size, bit 8 write, bit 9 strong.
define internal void @farlane_watch(ptr %warp, <32 x i64> %addresses, i32 %active, i32 %shape, i32 %line, ptr %values, i32 %layout) noinline {
entry:
  %array = alloca [32 x i64], align 64
  store <32 x i64> %addresses, ptr %array, align 64
  %worker = load ptr, ptr %warp
  %shadow.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shadow
  %shadow = load ptr, ptr %shadow.p
  %memory.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared
  %memory = load ptr, ptr %memory.p
  %limit.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared_size
  %limit = load i64, ptr %limit.p
  %entries = getelementptr %Shadow, ptr %shadow, i32 1
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %index = load i32, ptr %index.p
  %epoch = load i64, ptr %shadow
  %turn.p = getelementptr %Shadow, ptr %shadow, i32 0, i32 Shadow.turns, i32 %index
  %turn = load i32, ptr %turn.p
  %barrier.p = getelementptr %Shadow, ptr %shadow, i32 0, i32 Shadow.barriers, i32 %index
  %barrier = load i32, ptr %barrier.p
  %barrier64 = zext i32 %barrier to i64
  %barrier.bits = shl i64 %barrier64, 32
  %log32 = and i32 %shape, 255
  %log = zext i32 %log32 to i64
  %size = shl i64 1, %log
  %size32 = trunc i64 %size to i32
  %write.bit = and i32 %shape, 256
  %write = icmp ne i32 %write.bit, 0
  %below = shufflevector <32 x i64> %addresses, <32 x i64> poison, <32 x i32> <i32 0, i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30>
  %above = shufflevector <32 x i64> %addresses, <32 x i64> poison, <32 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 31>
  %like.below = icmp eq <32 x i64> %addresses, %below
  %like.above = icmp eq <32 x i64> %addresses, %above
  %like.both = and <32 x i1> %like.below, %like.above
  %like.bits = bitcast <32 x i1> %like.both to i32
  %active.below = shl i32 %active, 1
  %active.above = lshr i32 %active, 1
  %between.1 = and i32 %active.below, %active.above
  %between.2 = and i32 %between.1, %like.bits
  %between = select i1 %write, i32 0, i32 %between.2
  %outer = xor i32 %between, -1
  %lanes = and i32 %active, %outer
  %granule = load i64, ptr @farlane_granule_log
  %fewer = icmp ugt i64 %log, %granule
  %count.log.1 = sub i64 %log, %granule
  %count.log = select i1 %fewer, i64 %count.log.1, i64 0
  %count = shl i64 1, %count.log
  %epoch.bits = shl i64 %epoch, 48
  %turn64 = zext i32 %turn to i64
  %turn.bits = shl i64 %turn64, 32
  %strong.1 = lshr i32 %shape, 9
  %strong.2 = and i32 %strong.1, 1
  %strong.3 = zext i32 %strong.2 to i64
  %strong.bits = shl i64 %strong.3, 21
  %line.1 = and i32 %line, 2097151
  %line64 = zext i32 %line.1 to i64
  %base.1 = or i64 %epoch.bits, %turn.bits
  %base.2 = or i64 %base.1, %strong.bits
  %base = or i64 %base.2, %line64
  %first.thread = shl i32 %index, 5
  br label %pass
pass:
  %entering = phi i1 [ false, %entry ], [ true, %pass.end ]
  %empty = icmp eq i32 %lanes, 0
  br i1 %empty, label %done, label %loop
loop:
  %left = phi i32 [ %lanes, %pass ], [ %left.next, %next ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %slot = getelementptr [32 x i64], ptr %array, i32 0, i32 %lane
  %address = load i64, ptr %slot
  %high = lshr i64 %address, 32
  %is.shared = icmp eq i64 %high, 256
  %offset = and i64 %address, 4294967295
  %end = add i64 %offset, %size
  %fits = icmp ule i64 %end, %limit
  %ok = and i1 %is.shared, %fits
  br i1 %ok, label %here, label %next
here:
  %thread = add i32 %first.thread, %lane
  %thread64 = zext i32 %thread to i64
  %thread.bits = shl i64 %thread64, 22
  %me = or i64 %base, %thread.bits
  %first = lshr i64 %offset, %granule
  br label %granules
granules:
  %g = phi i64 [ 0, %here ], [ %g.next, %g.done ]
  %number = add i64 %first, %g
  %e = getelementptr %ShadowEntry, ptr %entries, i64 %number
  %r1.p = getelementptr %ShadowEntry, ptr %e, i32 0, i32 ShadowEntry.read
  %r2.p = getelementptr %ShadowEntry, ptr %e, i32 0, i32 ShadowEntry.other_read
  %w = load i64, ptr %e
  %r1 = load i64, ptr %r1.p
  %r2 = load i64, ptr %r2.p
  br i1 %entering, label %enter, label %compare
compare:
  %hit.w = call i1 @farlane_conflict(i64 %me, i64 %w, i64 %barrier.bits)
  br i1 %hit.w, label %against.write, label %against.reads
against.write:
  br i1 %write, label %waw, label %raw
raw:
  call void @farlane_hazard(ptr %warp, i32 3, i64 %me, i64 %w, i64 %offset, i32 %size32)
  br label %enter.read
waw:
  %host = getelementptr i8, ptr %memory, i64 %offset
  %harmless = call i1 @farlane_same_value(ptr %host, i64 %size, i32 %lane, ptr %values, i32 %layout)
  br i1 %harmless, label %against.reads, label %waw.report
waw.report:
  call void @farlane_hazard(ptr %warp, i32 2, i64 %me, i64 %w, i64 %offset, i32 %size32)
  br label %next
against.reads:
  br i1 %write, label %reads, label %enter.read
reads:
  %hit.r1 = call i1 @farlane_conflict(i64 %me, i64 %r1, i64 %turn.bits)
  %hit.r2 = call i1 @farlane_conflict(i64 %me, i64 %r2, i64 %turn.bits)
  %hit.r = or i1 %hit.r1, %hit.r2
  br i1 %hit.r, label %war, label %g.done
war:
  %host.r = getelementptr i8, ptr %memory, i64 %offset
  %harmless.r = call i1 @farlane_same_value(ptr %host.r, i64 %size, i32 %lane, ptr %values, i32 %layout)
  br i1 %harmless.r, label %g.done, label %war.report
war.report:
  %reader = select i1 %hit.r1, i64 %r1, i64 %r2
  call void @farlane_hazard(ptr %warp, i32 1, i64 %me, i64 %reader, i64 %offset, i32 %size32)
  br label %next
enter:
  br i1 %write, label %enter.write, label %enter.read
enter.write:
  store i64 %me, ptr %e
  store i64 0, ptr %r1.p
  store i64 0, ptr %r2.p
  br label %g.done
enter.read:
  ; The first reader stays as long as it counts; the second is one of another warp where there is one.
  %r1.xor = xor i64 %r1, %me
  %r1.epoch = lshr i64 %r1.xor, 48
  %r1.stale = icmp ne i64 %r1.epoch, 0
  %r1.warps = and i64 %r1.xor, 4160749568
  %r1.same.warp = icmp eq i64 %r1.warps, 0
  %r1.turns = and i64 %r1.xor, 281470681743360
  %r1.old.turn = icmp ne i64 %r1.turns, 0
  %r1.past = and i1 %r1.same.warp, %r1.old.turn
  %r1.threads = and i64 %r1.xor, 4290772992
  %r1.mine = icmp eq i64 %r1.threads, 0
  %replace.1 = or i1 %r1.stale, %r1.past
  %replace = or i1 %replace.1, %r1.mine
  br i1 %replace, label %first.reader, label %second.reader
first.reader:
  store i64 %me, ptr %r1.p
  br label %g.done
second.reader:
  %r2.xor = xor i64 %r2, %me
  %r2.epoch = lshr i64 %r2.xor, 48
  %r2.stale = icmp ne i64 %r2.epoch, 0
  %r1.r2 = xor i64 %r1, %r2
  %r1.r2.warps = and i64 %r1.r2, 4160749568
  %r2.near = icmp eq i64 %r1.r2.warps, 0
  %r2.warps = and i64 %r2.xor, 4160749568
  %r2.same.warp = icmp eq i64 %r2.warps, 0
  %take.1 = or i1 %r2.stale, %r2.near
  %take = or i1 %take.1, %r2.same.warp
  br i1 %take, label %take.second, label %g.done
take.second:
  store i64 %me, ptr %r2.p
  br label %g.done
g.done:
  %g.next = add i64 %g, 1
  %g.more = icmp ult i64 %g.next, %count
  br i1 %g.more, label %granules, label %next
next:
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %loop, label %pass.end
pass.end:
  %not.entered = xor i1 %entering, true
  %again = and i1 %write, %not.entered
  br i1 %again, label %pass, label %done
done:
  ret void
}
