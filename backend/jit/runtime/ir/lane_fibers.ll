; Lanes on fibers of their own (lane_fibers.py): a block's fibers are its threads, in order, each with a warp's state in which only its lane lives.
;
; What all lanes of a warp take part in is done by each fiber for itself, with what the others have brought: they meet before it. A lane that meets is
; in state 2, and its members are not 0. The one that comes last, or that ends and is waited for no longer, makes the others ready.

; Waits until all %members that have not ended are here, too. %mine: %count words that this lane brings; %all: where the words of lane L go to, %count times
; 32 of them. Returns the lanes that have met.
define internal i32 @farlane_meet(ptr %warp, i32 %members, ptr %mine, ptr %all, i32 %count) noinline {
entry:
  %self.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.mask
  %self = load i32, ptr %self.p
  ; A lane that does not name itself has no other lane to wait for.
  %named = and i32 %members, %self
  %is.named = icmp ne i32 %named, 0
  %meant = select i1 %is.named, i32 %members, i32 %self
  %members.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.members
  store i32 %meant, ptr %members.p
  %count.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.count
  store i32 %count, ptr %count.p
  %mine.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.mine
  store ptr %mine, ptr %mine.p
  %all.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.all
  store ptr %all, ptr %all.p
  %ids.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.barriers
  store i32 0, ptr %ids.p
  %state.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.state
  store i32 2, ptr %state.p
  call void @farlane_meet_try(ptr %warp)
  %state = load i32, ptr %state.p
  %done = icmp eq i32 %state, 1
  br i1 %done, label %met, label %wait
wait:
  call void @farlane_pass(ptr %warp)
  br label %met
met:
  store i32 0, ptr %members.p
  %lanes.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.met
  %lanes = load i32, ptr %lanes.p
  ret i32 %lanes
}

; The state of a warp's first lane, and how many lanes it has.
define internal { ptr, i32 } @farlane_fellows(ptr %warp) {
  %place.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.place
  %place = load i32, ptr %place.p
  %lane = and i32 %place, 31
  %back = sub i32 0, %lane
  %first = getelementptr %WarpState, ptr %warp, i32 %back
  %threads = load i32, ptr @farlane_threads
  %start = and i32 %place, -32
  %left = sub i32 %threads, %start
  %most = icmp ult i32 %left, 32
  %lanes = select i1 %most, i32 %left, i32 32
  %a = insertvalue { ptr, i32 } poison, ptr %first, 0
  %b = insertvalue { ptr, i32 } %a, i32 %lanes, 1
  ret { ptr, i32 } %b
}

; Makes those ready that this lane, which meets, waits for, and itself, if all of them are there.
define internal void @farlane_meet_try(ptr %warp) {
entry:
  %fellows = call { ptr, i32 } @farlane_fellows(ptr %warp)
  %first = extractvalue { ptr, i32 } %fellows, 0
  %lanes = extractvalue { ptr, i32 } %fellows, 1
  %members.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.members
  %members = load i32, ptr %members.p
  %count.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.count
  %count = load i32, ptr %count.p
  br label %look
look:
  %l = phi i32 [ 0, %entry ], [ %l.next, %next ]
  %here = phi i32 [ 0, %entry ], [ %here.next, %next ]
  %bit = shl i32 1, %l
  %named = and i32 %members, %bit
  %is.named = icmp ne i32 %named, 0
  br i1 %is.named, label %named.one, label %next
named.one:
  %other = getelementptr %WarpState, ptr %first, i32 %l
  %state.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.state
  %state = load i32, ptr %state.p
  %ended = icmp eq i32 %state, 0
  br i1 %ended, label %next, label %living
living:
  %waits = icmp eq i32 %state, 2
  %other.members.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.members
  %other.members = load i32, ptr %other.members.p
  %same = icmp eq i32 %other.members, %members
  %other.count.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.count
  %other.count = load i32, ptr %other.count.p
  %alike = icmp eq i32 %other.count, %count
  %meets.1 = and i1 %waits, %same
  %meets = and i1 %meets.1, %alike
  %here.with = or i32 %here, %bit
  br i1 %meets, label %next, label %missing
missing:
  ret void
next:
  %here.next = phi i32 [ %here, %look ], [ %here, %named.one ], [ %here.with, %living ]
  %l.next = add i32 %l, 1
  %more = icmp ult i32 %l.next, %lanes
  br i1 %more, label %look, label %complete
complete:
  %worker = load ptr, ptr %warp
  %idle.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.idle
  store i32 0, ptr %idle.p
  br label %to
to:
  %t.left = phi i32 [ %here.next, %complete ], [ %t.rest, %to.next ]
  %t.none = icmp eq i32 %t.left, 0
  br i1 %t.none, label %done, label %to.one
to.one:
  %t = call i32 @llvm.cttz.i32(i32 %t.left, i1 true)
  %t.less = sub i32 %t.left, 1
  %t.rest = and i32 %t.left, %t.less
  %receiver = getelementptr %WarpState, ptr %first, i32 %t
  %lanes.p = getelementptr %WarpState, ptr %receiver, i32 0, i32 WarpState.met
  store i32 %here.next, ptr %lanes.p
  %ready.p = getelementptr %WarpState, ptr %receiver, i32 0, i32 WarpState.state
  store i32 1, ptr %ready.p
  %all.p = getelementptr %WarpState, ptr %receiver, i32 0, i32 WarpState.all
  %all = load ptr, ptr %all.p
  br label %from
from:
  %f.left = phi i32 [ %here.next, %to.one ], [ %f.rest, %from.next ]
  %f.none = icmp eq i32 %f.left, 0
  br i1 %f.none, label %to.next, label %from.one
from.one:
  %f = call i32 @llvm.cttz.i32(i32 %f.left, i1 true)
  %f.less = sub i32 %f.left, 1
  %f.rest = and i32 %f.left, %f.less
  %sender = getelementptr %WarpState, ptr %first, i32 %f
  %mine.p = getelementptr %WarpState, ptr %sender, i32 0, i32 WarpState.mine
  %mine = load ptr, ptr %mine.p
  br label %words
words:
  %k = phi i32 [ 0, %from.one ], [ %k.next, %word ]
  %k.more = icmp ult i32 %k, %count
  br i1 %k.more, label %word, label %from.next
word:
  %word.p = getelementptr i64, ptr %mine, i32 %k
  %value = load i64, ptr %word.p
  %row = shl i32 %k, 5
  %at = add i32 %row, %f
  %at.p = getelementptr i64, ptr %all, i32 %at
  store i64 %value, ptr %at.p
  %k.next = add i32 %k, 1
  br label %words
from.next:
  br label %from
to.next:
  br label %to
done:
  ret void
}

; A lane has ended: the others of its warp may have waited for it alone.
define internal void @farlane_meet_without(ptr %warp) {
entry:
  %fellows = call { ptr, i32 } @farlane_fellows(ptr %warp)
  %first = extractvalue { ptr, i32 } %fellows, 0
  %lanes = extractvalue { ptr, i32 } %fellows, 1
  br label %look
look:
  %l = phi i32 [ 0, %entry ], [ %l.next, %next ]
  %other = getelementptr %WarpState, ptr %first, i32 %l
  %state.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.state
  %state = load i32, ptr %state.p
  %waits = icmp eq i32 %state, 2
  %members.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.members
  %members = load i32, ptr %members.p
  %some = icmp ne i32 %members, 0
  %meets = and i1 %waits, %some
  br i1 %meets, label %try, label %next
try:
  call void @farlane_meet_try(ptr %other)
  br label %next
next:
  %l.next = add i32 %l, 1
  %more = icmp ult i32 %l.next, %lanes
  br i1 %more, label %look, label %done
done:
  ret void
}

; The lanes that are here together, as far as fibers can tell: those that have come to the same %place on the same path of calls when every other lane of the warp
; has ended, waits, or is at such a place, too, but at no earlier one: from there it may come here. Lanes that never stop, since they wait in a loop for one of
; these, are waited for this many turns.
define internal i32 @farlane_converge(ptr %warp, i32 %place) noinline {
entry:
  %place.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.barriers
  store i32 %place, ptr %place.p
  %site = mul i32 %place, 2654435762
  %path.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.path
  %path = load i32, ptr %path.p
  %mixed = xor i32 %path, %site
  %here = or i32 %mixed, 1
  %site.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.site
  store i32 %here, ptr %site.p
  %lanes.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.met
  store i32 0, ptr %lanes.p
  br label %turn
turn:
  %turns = phi i32 [ 0, %entry ], [ %turns, %look ], [ %turns.next, %pass ]
  %lanes = load i32, ptr %lanes.p
  %told = icmp ne i32 %lanes, 0
  br i1 %told, label %done, label %look
look:
  %patient = icmp ult i32 %turns, 256
  %all = call i1 @farlane_converged(ptr %warp, i1 %patient)
  br i1 %all, label %turn, label %pass
pass:
  %turns.next = add i32 %turns, 1
  call void @farlane_pass(ptr %warp)
  br label %turn
done:
  store i32 0, ptr %site.p
  ret i32 %lanes
}

; Tells the lanes at this lane's site who they are, unless another lane of the warp may still come (if they are %patient).
define internal i1 @farlane_converged(ptr %warp, i1 %patient) {
entry:
  %fellows = call { ptr, i32 } @farlane_fellows(ptr %warp)
  %first = extractvalue { ptr, i32 } %fellows, 0
  %lanes = extractvalue { ptr, i32 } %fellows, 1
  %site.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.site
  %site = load i32, ptr %site.p
  %place.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.barriers
  %place = load i32, ptr %place.p
  br label %look
look:
  %l = phi i32 [ 0, %entry ], [ %l.next, %next ]
  %here = phi i32 [ 0, %entry ], [ %here.next, %next ]
  %bit = shl i32 1, %l
  %other = getelementptr %WarpState, ptr %first, i32 %l
  %other.place.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.barriers
  %other.place = load i32, ptr %other.place.p
  %earlier = icmp ult i32 %other.place, %place
  %state.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.state
  %state = load i32, ptr %state.p
  %other.site.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.site
  %other.site = load i32, ptr %other.site.p
  %told.p = getelementptr %WarpState, ptr %other, i32 0, i32 WarpState.met
  %told = load i32, ptr %told.p
  %runs = icmp eq i32 %state, 1
  %nowhere = icmp eq i32 %other.site, 0
  %is.told = icmp ne i32 %told, 0
  %gone.1 = or i1 %nowhere, %is.told
  %gone = or i1 %gone.1, %earlier
  %comes.1 = and i1 %runs, %gone
  %comes = and i1 %comes.1, %patient
  br i1 %comes, label %wait, label %next
wait:
  ret i1 false
next:
  %same.1 = icmp eq i32 %other.site, %site
  %same.2 = and i1 %same.1, %runs
  %untold = xor i1 %is.told, true
  %same = and i1 %same.2, %untold
  %with = or i32 %here, %bit
  %here.next = select i1 %same, i32 %with, i32 %here
  %l.next = add i32 %l, 1
  %more = icmp ult i32 %l.next, %lanes
  br i1 %more, label %look, label %tell
tell:
  %t.left = phi i32 [ %here.next, %next ], [ %t.rest, %tell.one ]
  %t.none = icmp eq i32 %t.left, 0
  br i1 %t.none, label %done, label %tell.one
tell.one:
  %t = call i32 @llvm.cttz.i32(i32 %t.left, i1 true)
  %t.less = sub i32 %t.left, 1
  %t.rest = and i32 %t.left, %t.less
  %receiver = getelementptr %WarpState, ptr %first, i32 %t
  %lanes.p = getelementptr %WarpState, ptr %receiver, i32 0, i32 WarpState.met
  store i32 %here.next, ptr %lanes.p
  br label %tell
done:
  ret i1 true
}
