; Which pages of two equally large areas differ (pages.py describes the structure): for each its number and what the second held, which is then
; made like the first. A page is read in parts of 256 bytes, up to the first that differs.

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.vector.reduce.or.v32i64(<32 x i64>)

define i32 @farlane_run(ptr %r, ptr %unused) {
entry:
  %memory = load ptr, ptr %r
  %shadow.p = getelementptr %Pages, ptr %r, i32 0, i32 Pages.shadow
  %shadow = load ptr, ptr %shadow.p
  %pages.p = getelementptr %Pages, ptr %r, i32 0, i32 Pages.pages
  %pages = load i64, ptr %pages.p
  %numbers.p = getelementptr %Pages, ptr %r, i32 0, i32 Pages.numbers
  %numbers = load ptr, ptr %numbers.p
  %contents.p = getelementptr %Pages, ptr %r, i32 0, i32 Pages.contents
  %contents = load ptr, ptr %contents.p
  br label %page
page:
  %p = phi i64 [ 0, %entry ], [ %p.next, %next ]
  %n = phi i64 [ 0, %entry ], [ %n.next, %next ]
  %more = icmp ult i64 %p, %pages
  br i1 %more, label %body, label %end
body:
  %offset = shl i64 %p, 12
  %m = getelementptr i8, ptr %memory, i64 %offset
  %s = getelementptr i8, ptr %shadow, i64 %offset
  br label %part
part:
  %at = phi i64 [ 0, %body ], [ %at.next, %same ]
  %m.part = getelementptr i8, ptr %m, i64 %at
  %s.part = getelementptr i8, ptr %s, i64 %at
  %m.words = load <32 x i64>, ptr %m.part, align 8
  %s.words = load <32 x i64>, ptr %s.part, align 8
  %difference = xor <32 x i64> %m.words, %s.words
  %any = call i64 @llvm.vector.reduce.or.v32i64(<32 x i64> %difference)
  %differs = icmp ne i64 %any, 0
  br i1 %differs, label %changed, label %same
same:
  %at.next = add i64 %at, 256
  %whole = icmp eq i64 %at.next, 4096
  br i1 %whole, label %next, label %part
changed:
  %number.p = getelementptr i64, ptr %numbers, i64 %n
  store i64 %p, ptr %number.p
  %place = shl i64 %n, 12
  %content = getelementptr i8, ptr %contents, i64 %place
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %content, ptr align 8 %s, i64 4096, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %s, ptr align 8 %m, i64 4096, i1 false)
  %n.more = add i64 %n, 1
  br label %next
next:
  %n.next = phi i64 [ %n, %same ], [ %n.more, %changed ]
  %p.next = add i64 %p, 1
  br label %page
end:
  %count.p = getelementptr %Pages, ptr %r, i32 0, i32 Pages.count
  store i64 %n, ptr %count.p
  ret i32 0
}
