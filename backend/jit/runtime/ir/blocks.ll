; Blocks and warps: which block is next, where its warps start, and how a warp begins and ends.

; The fiber of one warp of a kernel with barriers. Warp states: 0 done, 1 ready, 2 waiting.
define internal void @farlane_warp_main(ptr %warp) noreturn {
entry:
  %areas = alloca [65536 x i8], align 64
  %index.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.index
  %index = load i32, ptr %index.p
  %first = icmp eq i32 %index, 0
  %warp.group.warps = load i32, ptr @farlane_group_warps
  %warp.groups = icmp ne i32 %warp.group.warps, 0
  %leads = and i1 %first, %warp.groups
  br i1 %leads, label %warp.group, label %alone
warp.group:
  %done = call i1 @farlane_group_fiber(ptr %warp, ptr %areas)
  br i1 %done, label %over, label %alone
alone:
  call void @farlane_kernel(ptr %warp)
  br label %over
over:
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  store i32 0, ptr %state.p
  %lane.fibers = load i1, ptr @farlane_lane_fibers
  br i1 %lane.fibers, label %without, label %gone
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

; Fills the state of a block's warp, or of one of its threads if each has a fiber of its own (lane_fibers.ll).
define internal void @farlane_setup(ptr %worker, ptr %launch, ptr %warp, i32 %place, [3 x i32] %block) {
  %lane.fibers = load i1, ptr @farlane_lane_fibers
  %of.place = lshr i32 %place, 5
  %index = select i1 %lane.fibers, i32 %of.place, i32 %place
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
  %mask = select i1 %lane.fibers, i32 %alone, i32 %lanes
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
  %pause.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.pause
  %pause.word = load ptr, ptr %pause.p
  %never = icmp eq ptr %pause.word, null
  %pause.at = select i1 %never, ptr %abort.p, ptr %pause.word
  %pause = load atomic i32, ptr %pause.at monotonic, align 4
  %ended = or i32 %abort, %pause
  %stop = icmp ne i32 %ended, 0
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
  %warp.group.warps = load i32, ptr @farlane_group_warps
  %warp.groups = icmp ne i32 %warp.group.warps, 0
  br i1 %warp.groups, label %warp.group, label %warps
warp.group:
  call void @farlane_group_block(ptr %worker, ptr %launch, ptr %warp, ptr %areas, [3 x i32] %coordinates)
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
