; Clusters: blocks that share their shared memory, and a barrier (clusters.py says which addresses name what).
;
; A cluster's blocks are alive at once on one CPU thread (cooperative.ll), so what they do to each other's memory is plain. Of the barrier, each
; warp keeps the lanes that have arrived and were not released yet, each block how many of its living threads have. It completes when all
; living threads of the cluster have arrived; looked at after each turn of all blocks. In sets of barriers it is bit 16.

; The coordinates of the block with a number: clusters are numbered like blocks, x first, and blocks within their cluster.
define internal [3 x i32] @farlane_cluster_coordinates(ptr %launch, i64 %number) {
  %blocks.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster_blocks
  %blocks32 = load i32, ptr %blocks.p
  %blocks = zext i32 %blocks32 to i64
  %cluster = udiv i64 %number, %blocks
  %rank.64 = urem i64 %number, %blocks
  %rank = trunc i64 %rank.64 to i32
  %gx.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grid, i32 0
  %gx = load i32, ptr %gx.p
  %gy.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grid, i32 1
  %gy = load i32, ptr %gy.p
  %cx.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster, i32 0
  %cx = load i32, ptr %cx.p
  %cy.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster, i32 1
  %cy = load i32, ptr %cy.p
  %cz.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster, i32 2
  %cz = load i32, ptr %cz.p
  %nx.32 = udiv i32 %gx, %cx
  %nx = zext i32 %nx.32 to i64
  %ny.32 = udiv i32 %gy, %cy
  %ny = zext i32 %ny.32 to i64
  %at.x.64 = urem i64 %cluster, %nx
  %at.x = trunc i64 %at.x.64 to i32
  %rest = udiv i64 %cluster, %nx
  %at.y.64 = urem i64 %rest, %ny
  %at.y = trunc i64 %at.y.64 to i32
  %at.z.64 = udiv i64 %rest, %ny
  %at.z = trunc i64 %at.z.64 to i32
  %in.x = urem i32 %rank, %cx
  %rank.rest = udiv i32 %rank, %cx
  %in.y = urem i32 %rank.rest, %cy
  %in.z = udiv i32 %rank.rest, %cy
  %x.1 = mul i32 %at.x, %cx
  %x = add i32 %x.1, %in.x
  %y.1 = mul i32 %at.y, %cy
  %y = add i32 %y.1, %in.y
  %z.1 = mul i32 %at.z, %cz
  %z = add i32 %z.1, %in.z
  %a = insertvalue [3 x i32] poison, i32 %x, 0
  %b = insertvalue [3 x i32] %a, i32 %y, 1
  %c = insertvalue [3 x i32] %b, i32 %z, 2
  ret [3 x i32] %c
}

; Runs the clusters that this worker gets, one after the other. %peers: the states of their blocks. Returns the worker's status.
define internal i32 @farlane_clusters(ptr %launch, ptr %worker, ptr %peers) {
entry:
  %blocks.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster_blocks
  %blocks32 = load i32, ptr %blocks.p
  %blocks = zext i32 %blocks32 to i64
  br label %take
take:
  %range = call { i64, i64 } @farlane_take(ptr %launch)
  %first = extractvalue { i64, i64 } %range, 0
  %last = extractvalue { i64, i64 } %range, 1
  %none = icmp eq i64 %last, 0
  br i1 %none, label %done, label %cluster
cluster:
  %index = phi i64 [ %first, %take ], [ %index.next, %next ]
  %status = call i32 @farlane_cooperative(ptr %launch, ptr %worker, ptr %peers, i64 %index, i64 %blocks)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %next
next:
  %index.next = add i64 %index, %blocks
  %more = icmp ult i64 %index.next, %last
  br i1 %more, label %cluster, label %take
failed:
  ret i32 %status
done:
  ret i32 0
}

; --- Addresses ------------------------------------------------------------------------------------------------------

; The host address of %low, an address of shared::cluster, for a lane. A bad one faults.
define internal i64 @farlane_cluster_place(ptr %warp, i64 %low, i32 %lane, i32 %shape, i32 %line) noinline {
entry:
  %worker = load ptr, ptr %warp
  %rank.1 = lshr i64 %low, 24
  %offset = and i64 %low, 16777215
  %address = or i64 %low, 1099511627776
  %own = icmp eq i64 %rank.1, 0
  br i1 %own, label %found, label %other
other:
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %blocks.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster_blocks
  %blocks32 = load i32, ptr %blocks.p
  %blocks = zext i32 %blocks32 to i64
  %peers.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.peers
  %peers = load ptr, ptr %peers.p
  %exists = icmp ule i64 %rank.1, %blocks
  %clustered = icmp ne ptr %peers, null
  %good = and i1 %exists, %clustered
  br i1 %good, label %peer, label %nobody
nobody:
  call void @farlane_bounds(ptr %warp, i64 0, i64 0, i64 %address, i32 %lane, i32 %shape, i32 %line)
  unreachable
peer:
  %rank = sub i64 %rank.1, 1
  %peer.state = getelementptr %WorkerState, ptr %peers, i64 %rank
  br label %found
found:
  %state = phi ptr [ %worker, %entry ], [ %peer.state, %peer ]
  %base.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.shared
  %base = load i64, ptr %base.p
  %limit.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.shared_size
  %limit = load i64, ptr %limit.p
  call void @farlane_bounds(ptr %warp, i64 %offset, i64 %limit, i64 %address, i32 %lane, i32 %shape, i32 %line)
  %host = add i64 %base, %offset
  ret i64 %host
}

; Where addresses of shared::cluster lie, as distances from the block's own shared memory. Checks every lane.
define internal <32 x i64> @farlane_cluster_places(ptr %warp, <32 x i64> %addresses, i32 %lanes, i32 %shape, i32 %line) noinline {
entry:
  %array = alloca [32 x i64], align 64
  store <32 x i64> %addresses, ptr %array, align 64
  %window.all = or <32 x i64> %addresses, splat (i64 1099511627776)
  call void @farlane_witness(ptr %warp, <32 x i64> %window.all, i32 %lanes)
  %worker = load ptr, ptr %warp
  %base.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.shared
  %base = load i64, ptr %base.p
  %empty = icmp eq i32 %lanes, 0
  br i1 %empty, label %done, label %loop
loop:
  %left = phi i32 [ %lanes, %entry ], [ %left.next, %loop ]
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %slot = getelementptr [32 x i64], ptr %array, i32 0, i32 %lane
  %low = load i64, ptr %slot
  %host = call i64 @farlane_cluster_place(ptr %warp, i64 %low, i32 %lane, i32 %shape, i32 %line)
  %distance = sub i64 %host, %base
  store i64 %distance, ptr %slot
  %minus = sub i32 %left, 1
  %left.next = and i32 %left, %minus
  %more = icmp ne i32 %left.next, 0
  br i1 %more, label %loop, label %done
done:
  call void @farlane_witness(ptr %warp, <32 x i64> zeroinitializer, i32 0)
  %result = load <32 x i64>, ptr %array, align 64
  ret <32 x i64> %result
}

; --- The barrier ----------------------------------------------------------------------------------------------------

; barrier.cluster.arrive for some lanes.
define internal void @farlane_cluster_arrive(ptr %warp, i32 %lanes) noinline {
  %worker = load ptr, ptr %warp
  %pending.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.pending
  %pending = load i32, ptr %pending.p
  %both = or i32 %pending, %lanes
  store i32 %both, ptr %pending.p
  %new = xor i32 %both, %pending
  %count = call i32 @llvm.ctpop.i32(i32 %new)
  %arrived.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.arrived
  %arrived = load i32, ptr %arrived.p
  %sum = add i32 %arrived, %count
  store i32 %sum, ptr %arrived.p
  ret void
}

; barrier.cluster.wait for some lanes: they go on together.
define internal void @farlane_cluster_wait(ptr %warp, i32 %lanes) noinline {
entry:
  %pending = call i32 @farlane_cluster_pending(ptr %warp)
  %wait = and i32 %pending, %lanes
  %is.over = icmp eq i32 %wait, 0
  br i1 %is.over, label %over, label %sleep
sleep:
  %released = call i32 @farlane_wait(ptr %warp, i32 65536)
  br label %over
over:
  ret void
}

; farlane_wait where lanes of the warp are parked at the cluster's barrier, %parked: it may have completed since they came there.
define internal i32 @farlane_cluster_wait_parked(ptr %warp, i32 %ids, i32 %parked) noinline {
entry:
  %pending = call i32 @farlane_cluster_pending(ptr %warp)
  %not = xor i32 %pending, -1
  %free = and i32 %parked, %not
  %none = icmp eq i32 %free, 0
  br i1 %none, label %sleep, label %go
go:
  ret i32 65536
sleep:
  %released = call i32 @farlane_wait(ptr %warp, i32 %ids)
  ret i32 %released
}

; The lanes that have arrived and were not released.
define internal i32 @farlane_cluster_pending(ptr %warp) {
  %pending.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.pending
  %pending = load i32, ptr %pending.p
  ret i32 %pending
}

; Lanes leave the kernel: no lane waits for them, whether they have arrived or not.
define internal void @farlane_cluster_leave(ptr %worker, ptr %warp, i32 %lanes) {
  %pending.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.pending
  %pending = load i32, ptr %pending.p
  %leaving = and i32 %pending, %lanes
  %rest = xor i32 %pending, %leaving
  store i32 %rest, ptr %pending.p
  %count = call i32 @llvm.ctpop.i32(i32 %leaving)
  %arrived.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.arrived
  %arrived = load i32, ptr %arrived.p
  %left = sub i32 %arrived, %count
  store i32 %left, ptr %arrived.p
  ret void
}

; Completes the barriers of the clusters that %count blocks make up; returns whether one did.
define internal i1 @farlane_cluster_barriers(ptr %launch, ptr %states, i64 %count) {
entry:
  %used = load i1, ptr @farlane_clusters_used
  br i1 %used, label %some, label %none
none:
  ret i1 false
some:
  %blocks.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.cluster_blocks
  %blocks32 = load i32, ptr %blocks.p
  %blocks64 = zext i32 %blocks32 to i64
  %blocks = call i64 @llvm.umax.i64(i64 %blocks64, i64 1)
  br label %cluster
cluster:
  %at = phi i64 [ 0, %some ], [ %at.next, %cluster ]
  %any = phi i1 [ false, %some ], [ %any.next, %cluster ]
  %states.at = getelementptr %WorkerState, ptr %states, i64 %at
  %completed = call i1 @farlane_cluster_complete(ptr %states.at, i64 %blocks)
  %any.next = or i1 %any, %completed
  %at.next = add i64 %at, %blocks
  %more = icmp ult i64 %at.next, %count
  br i1 %more, label %cluster, label %done
done:
  ret i1 %any.next
}

; Completes the barrier of one cluster when all its living threads have arrived; returns whether it did.
define internal i1 @farlane_cluster_complete(ptr %states, i64 %blocks) noinline {
entry:
  br label %sum
sum:
  %s = phi i64 [ 0, %entry ], [ %s.next, %sum ]
  %missing = phi i32 [ 0, %entry ], [ %missing.next, %sum ]
  %there = phi i32 [ 0, %entry ], [ %there.next, %sum ]
  %s.live.p = getelementptr %WorkerState, ptr %states, i64 %s, i32 WorkerState.live
  %s.live = load i32, ptr %s.live.p
  %s.arrived.p = getelementptr %WorkerState, ptr %states, i64 %s, i32 WorkerState.arrived
  %s.arrived = load i32, ptr %s.arrived.p
  %s.missing = sub i32 %s.live, %s.arrived
  %missing.next = add i32 %missing, %s.missing
  %there.next = add i32 %there, %s.arrived
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %blocks
  br i1 %s.more, label %sum, label %summed
summed:
  %all = icmp eq i32 %missing.next, 0
  %some = icmp ne i32 %there.next, 0
  %complete = and i1 %all, %some
  br i1 %complete, label %block.start, label %no
no:
  ret i1 false
block.start:
  %warp.count = load i32, ptr @farlane_warps
  br label %block
block:
  %b = phi i64 [ 0, %block.start ], [ %b.next, %block.end ]
  %state = getelementptr %WorkerState, ptr %states, i64 %b
  %arrived.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.arrived
  store i32 0, ptr %arrived.p
  call void @farlane_watch_block(ptr %state)
  %warps.p = getelementptr %WorkerState, ptr %state, i32 0, i32 WorkerState.warps
  %warps = load ptr, ptr %warps.p
  br label %warp
warp:
  %w = phi i32 [ 0, %block ], [ %w.next, %warp.next ]
  %pending.p = getelementptr %WarpState, ptr %warps, i32 %w, i32 WarpState.pending
  store i32 0, ptr %pending.p
  %warp.state.p = getelementptr %WarpState, ptr %warps, i32 %w, i32 WarpState.state
  %warp.state = load i32, ptr %warp.state.p
  %waiting = icmp eq i32 %warp.state, 2
  %ids.p = getelementptr %WarpState, ptr %warps, i32 %w, i32 WarpState.barriers
  %ids = load i32, ptr %ids.p
  %here = icmp uge i32 %ids, 65536
  %wake = and i1 %waiting, %here
  br i1 %wake, label %ready, label %warp.next
ready:
  %released.p = getelementptr %WarpState, ptr %warps, i32 %w, i32 WarpState.released
  store i32 65536, ptr %released.p
  store i32 1, ptr %warp.state.p
  br label %warp.next
warp.next:
  %w.next = add i32 %w, 1
  %w.more = icmp ult i32 %w.next, %warp.count
  br i1 %w.more, label %warp, label %block.end
block.end:
  %b.next = add i64 %b, 1
  %b.more = icmp ult i64 %b.next, %blocks
  br i1 %b.more, label %block, label %done
done:
  ret i1 true
}
