; What checks.ll has, for kernels compiled without checks: nothing. All of it is gone after inlining.

define internal { i64, i64 } @farlane_held(ptr %launch, i64 %address, i64 %size) alwaysinline {
  ret { i64, i64 } { i64 0, i64 -1 }
}

define internal void @farlane_witness(ptr %warp, <32 x i64> %addresses, i32 %lanes) alwaysinline {
  ret void
}

define internal void @farlane_watch_block(ptr %worker) alwaysinline {
  ret void
}
