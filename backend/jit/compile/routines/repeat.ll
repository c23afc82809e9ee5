; The dispatch loop: does a list of operations again and again, without returning to Python (repeats.py describes the structures).
;
; Owns the order of operations, the filling of operands from the columns, and copies within the session's allocations. A kernel runs on
; this thread, or by a call back; allocations change by a call back. Whatever an operation finds wrong is not decided here: the loop stops in front of it.
;
; Status: 0 done, 1 stopped in front of a step, 2 a kernel did not end well, 3 interrupted.

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @clock_gettime(i32, ptr)

define internal void @fill(ptr %op, ptr %matrix, i64 %stride, i64 %k) alwaysinline {
entry:
  %count.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.hole_count
  %count32 = load i32, ptr %count.p
  %count = zext i32 %count32 to i64
  %holes.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.holes
  %holes = load ptr, ptr %holes.p
  %operands.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.operands
  %operands = load ptr, ptr %operands.p
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %hole = getelementptr %Hole, ptr %holes, i64 %i
  %at32 = load i32, ptr %hole
  %at = zext i32 %at32 to i64
  %width.p = getelementptr %Hole, ptr %hole, i32 0, i32 Hole.width
  %width = load i32, ptr %width.p
  %row.p = getelementptr %Hole, ptr %hole, i32 0, i32 Hole.row
  %row = load i64, ptr %row.p
  %base = mul i64 %row, %stride
  %index = add i64 %base, %k
  %value.p = getelementptr i64, ptr %matrix, i64 %index
  %value = load i64, ptr %value.p
  %to = getelementptr i8, ptr %operands, i64 %at
  switch i32 %width, label %eight [ i32 1, label %one i32 2, label %two i32 4, label %four ]
one:
  %v1 = trunc i64 %value to i8
  store i8 %v1, ptr %to, align 1
  br label %next
two:
  %v2 = trunc i64 %value to i16
  store i16 %v2, ptr %to, align 1
  br label %next
four:
  %v4 = trunc i64 %value to i32
  store i32 %v4, ptr %to, align 1
  br label %next
eight:
  store i64 %value, ptr %to, align 1
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %head
end:
  ret void
}

define i32 @farlane_run(ptr %r, ptr %unused) {
entry:
  %time = alloca { i64, i64 }
  %ops = load ptr, ptr %r
  %ops.count.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.operation_count
  %ops.count = load i64, ptr %ops.count.p
  %matrix.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.matrix
  %matrix = load ptr, ptr %matrix.p
  %count.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.iterations
  %count = load i64, ptr %count.p
  %results.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.results
  %results = load ptr, ptr %results.p
  %stride.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.result_stride
  %stride = load i64, ptr %stride.p
  %interrupted.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.interrupted
  %interrupted = load ptr, ptr %interrupted.p
  %pause.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.pause
  %pause = load ptr, ptr %pause.p
  %callback.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.callback
  %callback = load ptr, ptr %callback.p
  %launches.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.launches
  br label %iteration
iteration:
  %k = phi i64 [ 0, %entry ], [ %k.next, %iteration.end ]
  %result.at = mul i64 %k, %stride
  %result = getelementptr i8, ptr %results, i64 %result.at
  %going = icmp ult i64 %k, %count
  br i1 %going, label %step, label %leave
step:
  %i = phi i64 [ 0, %iteration ], [ %i.next, %step.end ]
  %within = icmp ult i64 %i, %ops.count
  br i1 %within, label %look, label %iteration.end
look:
  %flag = load atomic i32, ptr %interrupted seq_cst, align 4
  %pause.flag = load atomic i32, ptr %pause monotonic, align 4
  %flags = or i32 %flag, %pause.flag
  %stop = icmp ne i32 %flags, 0
  br i1 %stop, label %leave, label %go
go:
  %op = getelementptr %Operation, ptr %ops, i64 %i
  call void @fill(ptr %op, ptr %matrix, i64 %count, i64 %k)
  %operands.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.operands
  %operands = load ptr, ptr %operands.p
  %run.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.run
  %run = load ptr, ptr %run.p
  %launch.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.launch
  %launch = load ptr, ptr %launch.p
  %size.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.size
  %size = load i64, ptr %size.p
  %kind = load i32, ptr %op
  switch i32 %kind, label %step.end [
    i32 0, label %kernel
    i32 1, label %set
    i32 2, label %copy
    i32 3, label %write
    i32 4, label %read
    i32 5, label %record
    i32 7, label %spread
    i32 8, label %managed
    i32 9, label %managed
    i32 10, label %put
  ]
kernel:
  %launches = load i64, ptr %launches.p
  %launches.next = add i64 %launches, 1
  store i64 %launches.next, ptr %launches.p
  %grid.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.grid_id
  store i64 %launches.next, ptr %grid.p
  %block.p = getelementptr %Launch, ptr %launch, i32 0, i32 Launch.next_block
  store i64 0, ptr %block.p
  %worker.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.worker
  %worker = load ptr, ptr %worker.p
  %status = call i32 %run(ptr %launch, ptr %worker)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %leave, label %step.end
spread:
  %told = call i32 %callback(i64 %i)
  %broken = icmp ne i32 %told, 0
  br i1 %broken, label %leave, label %step.end
managed:
  %managed.told = call i32 %callback(i64 %i)
  %managed.not = icmp ne i32 %managed.told, 0
  br i1 %managed.not, label %leave, label %step.end
set:
  %set.done = call i1 @set(ptr %r, ptr %operands)
  br i1 %set.done, label %step.end, label %leave
copy:
  %copy.done = call i1 @copy(ptr %r, ptr %operands)
  br i1 %copy.done, label %step.end, label %leave
write:
  %data = getelementptr i8, ptr %operands, i64 32
  %write.done = call i1 @transfer(ptr %r, ptr %operands, ptr %data, i64 %size, i1 true)
  br i1 %write.done, label %step.end, label %leave
put:
  %put.from = call i64 @operand(ptr %operands, i64 32)
  %put.size = call i64 @operand(ptr %operands, i64 40)
  %put.data = inttoptr i64 %put.from to ptr
  %put.done = call i1 @transfer(ptr %r, ptr %operands, ptr %put.data, i64 %put.size, i1 true)
  br i1 %put.done, label %step.end, label %leave
read:
  %at.p = getelementptr %Operation, ptr %op, i32 0, i32 Operation.result_at
  %at = load i64, ptr %at.p
  %target = getelementptr i8, ptr %result, i64 %at
  %read.done = call i1 @transfer(ptr %r, ptr %operands, ptr %target, i64 %size, i1 false)
  br i1 %read.done, label %step.end, label %leave
record:
  %asked = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %nanos.p = getelementptr { i64, i64 }, ptr %time, i32 0, i32 1
  %nanos = load i64, ptr %nanos.p
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %nanos
  store i64 %now, ptr %run
  br label %step.end
step.end:
  %i.next = add i64 %i, 1
  br label %step
iteration.end:
  %k.next = add i64 %k, 1
  br label %iteration
leave:
  %code = phi i32 [ 0, %iteration ], [ 3, %look ], [ 2, %kernel ], [ 2, %spread ], [ 1, %set ], [ 1, %copy ], [ 1, %write ], [ 1, %read ], [ 1, %managed ], [ 1, %put ]
  %where = phi i64 [ 0, %iteration ], [ %i, %look ], [ %i, %kernel ], [ %i, %spread ], [ %i, %set ], [ %i, %copy ], [ %i, %write ], [ %i, %read ], [ %i, %managed ], [ %i, %put ]
  %done.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.done
  store i64 %k, ptr %done.p
  %step.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.step
  store i64 %where, ptr %step.p
  ret i32 %code
}
