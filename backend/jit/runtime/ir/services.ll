; Requests to the device (services.py): from compiled code to the callback of the launch, and back.
;
; The callback runs on the stack of the CPU thread, below the scheduler's frame, not on the fiber's: it is the caller's language, which may
; need more stack than a fiber has, and may look where its stack is.

declare void @farlane_elsewhere(ptr, ptr, i64)

; Hands a request over, whose kind, lanes, line and arguments are filled in, and returns with its results; does not return after a fault.
; Where pages have lost flags meanwhile (PageAnswer.MOVED), every latch is forgotten.
define internal void @farlane_request(ptr %warp, ptr %request) noinline {
entry:
  %fault.p = getelementptr %Request, ptr %request, i32 0, i32 Request.fault
  store i32 0, ptr %fault.p
  %warp.p = getelementptr %Request, ptr %request, i32 0, i32 Request.warp
  store ptr %warp, ptr %warp.p
  %lane.p = getelementptr %Request, ptr %request, i32 0, i32 Request.fault_lane
  store i32 0, ptr %lane.p
  %page.p = getelementptr %Request, ptr %request, i32 0, i32 Request.page_answer
  store i32 0, ptr %page.p
  %address.p = getelementptr %Request, ptr %request, i32 0, i32 Request.fault_address
  store i64 0, ptr %address.p
  %line.p = getelementptr %Request, ptr %request, i32 0, i32 Request.line
  %line = load i32, ptr %line.p
  %worker = load ptr, ptr %warp
  %launch.p = getelementptr %WarpState, ptr %warp, i32 0, i32 WarpState.launch
  %launch = load ptr, ptr %launch.p
  %services.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.services
  %services = load ptr, ptr %services.p
  %none = icmp eq ptr %services, null
  br i1 %none, label %refuse, label %ask
refuse:
  call void @farlane_fault(ptr %warp, i32 4, i64 0, i32 0, i32 0, i32 0, i32 %line)
  unreachable
ask:
  %scheduler.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.scheduler_sp
  %scheduler = load i64, ptr %scheduler.p
  call void @farlane_elsewhere(ptr %services, ptr %request, i64 %scheduler)
  %page = load i32, ptr %page.p
  %moved = icmp eq i32 %page, 2
  br i1 %moved, label %forget, label %answered
forget:
  %latches.p = getelementptr %WorkerState, ptr %worker, i32 0, i32 WorkerState.latches
  %latches = load ptr, ptr %latches.p
  %latch.bytes = load i64, ptr @farlane_latch_bytes
  call void @llvm.memset.p0.i64(ptr %latches, i8 0, i64 %latch.bytes, i1 false)
  br label %answered
answered:
  %fault = load i32, ptr %fault.p
  %bad = icmp ne i32 %fault, 0
  br i1 %bad, label %fail, label %done
fail:
  %lane = load i32, ptr %lane.p
  %address = load i64, ptr %address.p
  call void @farlane_fault(ptr %warp, i32 %fault, i64 %address, i32 0, i32 0, i32 %lane, i32 %line)
  unreachable
done:
  ret void
}
