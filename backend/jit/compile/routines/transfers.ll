; Copies and sets of the dispatch loop (repeat.ll), within the ranges that the session may touch.

define internal i64 @operand(ptr %operands, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %operands, i64 %at
  %v = load i64, ptr %p, align 1
  ret i64 %v
}

; Bytes from the first to the last of some rows; 0 when they are too many to count here, or the pitch is too small.
define internal i64 @span(i64 %pitch, i64 %width, i64 %height) alwaysinline {
  %w.big = icmp ugt i64 %width, 274877906944
  %p.big = icmp ugt i64 %pitch, 274877906944
  %h.big = icmp ugt i64 %height, 16777216
  %a = or i1 %w.big, %p.big
  %big = or i1 %a, %h.big
  %tall = icmp ugt i64 %height, 1
  %narrow = icmp ult i64 %pitch, %width
  %bad.pitch = and i1 %tall, %narrow
  %bad = or i1 %big, %bad.pitch
  %last = sub i64 %height, 1
  %lead = mul i64 %last, %pitch
  %span = add i64 %lead, %width
  %result = select i1 %bad, i64 0, i64 %span
  ret i64 %result
}

; Whether [address, address + span) lies in one allocation. Starts are sorted.
define internal i1 @inside(ptr %r, i64 %address, i64 %span) {
entry:
  %starts.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.starts
  %starts = load ptr, ptr %starts.p
  %ends.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.ends
  %ends = load ptr, ptr %ends.p
  %count.p = getelementptr %Repeat, ptr %r, i32 0, i32 Repeat.allocations
  %count = load i64, ptr %count.p
  %none = icmp eq i64 %span, 0
  br i1 %none, label %no, label %head
head:
  %low = phi i64 [ 0, %entry ], [ %low.next, %halve ]
  %high = phi i64 [ %count, %entry ], [ %high.next, %halve ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %halve, label %found
halve:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %start.p = getelementptr i64, ptr %starts, i64 %middle
  %start = load i64, ptr %start.p
  %before = icmp ule i64 %start, %address
  %above = add i64 %middle, 1
  %low.next = select i1 %before, i64 %above, i64 %low
  %high.next = select i1 %before, i64 %high, i64 %middle
  br label %head
found:
  %empty = icmp eq i64 %low, 0
  br i1 %empty, label %no, label %ending
ending:
  %index = sub i64 %low, 1
  %end.p = getelementptr i64, ptr %ends, i64 %index
  %end = load i64, ptr %end.p
  %behind = icmp uge i64 %address, %end
  br i1 %behind, label %no, label %room
room:
  %left = sub i64 %end, %address
  %fits = icmp ule i64 %span, %left
  ret i1 %fits
no:
  ret i1 false
}

define internal void @copy_rows(ptr %to, i64 %to.pitch, ptr %from, i64 %from.pitch, i64 %width, i64 %height) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %more = icmp ult i64 %i, %height
  br i1 %more, label %body, label %end
body:
  %to.at = mul i64 %i, %to.pitch
  %from.at = mul i64 %i, %from.pitch
  %t = getelementptr i8, ptr %to, i64 %to.at
  %f = getelementptr i8, ptr %from, i64 %from.at
  call void @llvm.memcpy.p0.p0.i64(ptr %t, ptr %f, i64 %width, i1 false)
  %i.next = add i64 %i, 1
  br label %head
end:
  ret void
}

define internal void @set_row(ptr %to, i64 %bytes, i64 %pattern, i32 %element) {
entry:
  %single = icmp eq i32 %element, 1
  br i1 %single, label %plain, label %words
plain:
  %byte = trunc i64 %pattern to i8
  call void @llvm.memset.p0.i64(ptr %to, i8 %byte, i64 %bytes, i1 false)
  ret void
words:
  %whole = and i64 %bytes, -8
  br label %head
head:
  %i = phi i64 [ 0, %words ], [ %i.next, %body ]
  %more = icmp ult i64 %i, %whole
  br i1 %more, label %body, label %tail
body:
  %p = getelementptr i8, ptr %to, i64 %i
  store i64 %pattern, ptr %p, align 1
  %i.next = add i64 %i, 8
  br label %head
tail:
  %j = phi i64 [ %whole, %head ], [ %j.next, %rest ]
  %shifted = phi i64 [ %pattern, %head ], [ %shifted.next, %rest ]
  %left = icmp ult i64 %j, %bytes
  br i1 %left, label %rest, label %end
rest:
  %q = getelementptr i8, ptr %to, i64 %j
  %b = trunc i64 %shifted to i8
  store i8 %b, ptr %q
  %shifted.next = lshr i64 %shifted, 8
  %j.next = add i64 %j, 1
  br label %tail
end:
  ret void
}

; The copies return whether they were done.

define internal i1 @set(ptr %r, ptr %operands) {
entry:
  %address = call i64 @operand(ptr %operands, i64 0)
  %pitch = call i64 @operand(ptr %operands, i64 8)
  %width = call i64 @operand(ptr %operands, i64 16)
  %height = call i64 @operand(ptr %operands, i64 24)
  %last = call i64 @operand(ptr %operands, i64 32)
  %high = lshr i64 %last, 32
  %element = trunc i64 %high to i32
  %is1 = icmp eq i32 %element, 1
  %is2 = icmp eq i32 %element, 2
  %is4 = icmp eq i32 %element, 4
  %is12 = or i1 %is1, %is2
  %known = or i1 %is12, %is4
  br i1 %known, label %sized, label %no
sized:
  %less = sub i64 %high, 1
  %bits.a = or i64 %address, %pitch
  %bits = or i64 %bits.a, %width
  %odd = and i64 %bits, %less
  %aligned = icmp eq i64 %odd, 0
  br i1 %aligned, label %area, label %no
area:
  %span = call i64 @span(i64 %pitch, i64 %width, i64 %height)
  %w0 = icmp eq i64 %width, 0
  %h0 = icmp eq i64 %height, 0
  %none = or i1 %w0, %h0
  br i1 %none, label %no, label %where
where:
  %in = call i1 @inside(ptr %r, i64 %address, i64 %span)
  br i1 %in, label %do, label %no
do:
  %value = and i64 %last, 4294967295
  %v1 = and i64 %value, 255
  %v2 = and i64 %value, 65535
  %p1 = mul i64 %v1, 72340172838076673
  %p2 = mul i64 %v2, 281479271743489
  %p4 = mul i64 %value, 4294967297
  %p12 = select i1 %is1, i64 %p1, i64 %p2
  %pattern = select i1 %is4, i64 %p4, i64 %p12
  %to = inttoptr i64 %address to ptr
  %one = icmp eq i64 %height, 1
  %packed = icmp eq i64 %pitch, %width
  %flat = or i1 %one, %packed
  br i1 %flat, label %whole, label %head
whole:
  %bytes = mul i64 %width, %height
  call void @set_row(ptr %to, i64 %bytes, i64 %pattern, i32 %element)
  ret i1 true
head:
  %i = phi i64 [ 0, %do ], [ %i.next, %body ]
  %more = icmp ult i64 %i, %height
  br i1 %more, label %body, label %end
body:
  %at = mul i64 %i, %pitch
  %p = getelementptr i8, ptr %to, i64 %at
  call void @set_row(ptr %p, i64 %width, i64 %pattern, i32 %element)
  %i.next = add i64 %i, 1
  br label %head
end:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @copy(ptr %r, ptr %operands) {
entry:
  %to = call i64 @operand(ptr %operands, i64 0)
  %to.pitch = call i64 @operand(ptr %operands, i64 8)
  %from = call i64 @operand(ptr %operands, i64 16)
  %from.pitch = call i64 @operand(ptr %operands, i64 24)
  %width = call i64 @operand(ptr %operands, i64 32)
  %height = call i64 @operand(ptr %operands, i64 40)
  %w0 = icmp eq i64 %width, 0
  %h0 = icmp eq i64 %height, 0
  %none = or i1 %w0, %h0
  br i1 %none, label %no, label %where
where:
  %to.span = call i64 @span(i64 %to.pitch, i64 %width, i64 %height)
  %from.span = call i64 @span(i64 %from.pitch, i64 %width, i64 %height)
  %to.in = call i1 @inside(ptr %r, i64 %to, i64 %to.span)
  %from.in = call i1 @inside(ptr %r, i64 %from, i64 %from.span)
  %in = and i1 %to.in, %from.in
  br i1 %in, label %do, label %no
do:
  %to.p = inttoptr i64 %to to ptr
  %from.p = inttoptr i64 %from to ptr
  %one = icmp eq i64 %height, 1
  %to.packed = icmp eq i64 %to.pitch, %width
  %from.packed = icmp eq i64 %from.pitch, %width
  %packed = and i1 %to.packed, %from.packed
  %flat = or i1 %one, %packed
  br i1 %flat, label %whole, label %apart
whole:
  %bytes = mul i64 %width, %height
  call void @llvm.memmove.p0.p0.i64(ptr %to.p, ptr %from.p, i64 %bytes, i1 false)
  ret i1 true
apart:
  %to.end = add i64 %to, %to.span
  %from.end = add i64 %from, %from.span
  %before = icmp ule i64 %to.end, %from
  %behind = icmp ule i64 %from.end, %to
  %disjoint = or i1 %before, %behind
  br i1 %disjoint, label %rows, label %no
rows:
  call void @copy_rows(ptr %to.p, i64 %to.pitch, ptr %from.p, i64 %from.pitch, i64 %width, i64 %height)
  ret i1 true
no:
  ret i1 false
}

define internal i1 @transfer(ptr %r, ptr %operands, ptr %packed, i64 %size, i1 %write) {
entry:
  %address = call i64 @operand(ptr %operands, i64 0)
  %pitch = call i64 @operand(ptr %operands, i64 8)
  %width = call i64 @operand(ptr %operands, i64 16)
  %height = call i64 @operand(ptr %operands, i64 24)
  %w0 = icmp eq i64 %width, 0
  %h0 = icmp eq i64 %height, 0
  %none = or i1 %w0, %h0
  br i1 %none, label %no, label %where
where:
  %span = call i64 @span(i64 %pitch, i64 %width, i64 %height)
  %in = call i1 @inside(ptr %r, i64 %address, i64 %span)
  br i1 %in, label %counted, label %no
counted:
  %bytes = mul i64 %width, %height
  %exact = icmp eq i64 %bytes, %size
  br i1 %exact, label %do, label %no
do:
  %device = inttoptr i64 %address to ptr
  %one = icmp eq i64 %height, 1
  %flat.pitch = icmp eq i64 %pitch, %width
  %flat = or i1 %one, %flat.pitch
  %w = select i1 %flat, i64 %bytes, i64 %width
  %h = select i1 %flat, i64 1, i64 %height
  br i1 %write, label %up, label %down
up:
  call void @copy_rows(ptr %device, i64 %pitch, ptr %packed, i64 %width, i64 %w, i64 %h)
  ret i1 true
down:
  call void @copy_rows(ptr %packed, i64 %width, ptr %device, i64 %pitch, i64 %w, i64 %h)
  ret i1 true
no:
  ret i1 false
}
