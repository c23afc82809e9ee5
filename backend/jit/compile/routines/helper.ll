; What a helper's thread does (helpers.py): waits for a kernel, runs it, says so, without Python in between.

; States: 0 nothing, 1 asked, 2 at it. Who asks takes that back when all is done before the helper has come.

declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)

define i32 @farlane_run(ptr %box, ptr %unused) {
entry:
  %over.p = getelementptr %Box, ptr %box, i32 0, i32 Box.over
  %run.p = getelementptr %Box, ptr %box, i32 0, i32 Box.run
  %launch.p = getelementptr %Box, ptr %box, i32 0, i32 Box.launch
  %worker.p = getelementptr %Box, ptr %box, i32 0, i32 Box.worker
  %status.p = getelementptr %Box, ptr %box, i32 0, i32 Box.status
  br label %wait
wait:
  %waited = call i32 @sem_wait(ptr %box)
  %again = icmp ne i32 %waited, 0 ; a signal
  br i1 %again, label %wait, label %woken
woken:
  %state.p = getelementptr %Box, ptr %box, i32 0, i32 Box.state
  %claim = cmpxchg ptr %state.p, i32 1, i32 2 acq_rel monotonic
  %claimed = extractvalue { i32, i1 } %claim, 1
  br i1 %claimed, label %asked, label %wait
asked:
  %run = load ptr, ptr %run.p
  %none = icmp eq ptr %run, null
  br i1 %none, label %done, label %go
go:
  %launch = load ptr, ptr %launch.p
  %worker = load ptr, ptr %worker.p
  %status = call i32 %run(ptr %launch, ptr %worker)
  store i32 %status, ptr %status.p
  %posted = call i32 @sem_post(ptr %over.p)
  br label %wait
done:
  ret i32 0
}
