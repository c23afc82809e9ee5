//! What Rust's core library and the compiler need where there is neither a standard nor a C library: memory functions,
//! and what a panic does. The functions are hidden: the library must not offer a `memcpy` to the process that preloads
//! it.

use core::arch::global_asm;
use core::panic::PanicInfo;

use crate::system;

global_asm!(
    ".macro hidden symbol",
    ".hidden \\symbol",
    ".globl \\symbol",
    ".type \\symbol, @function",
    "\\symbol:",
    ".endm",
    "hidden memcpy",
    "    mov rax, rdi",
    "    mov rcx, rdx",
    "    rep movsb",
    "    ret",
    "hidden memmove",
    "    mov rax, rdi",
    "    mov rcx, rdx",
    "    cmp rdi, rsi",
    "    ja 2f",
    "    rep movsb",
    "    ret",
    "2:  lea rdi, [rdi + rdx - 1]",
    "    lea rsi, [rsi + rdx - 1]",
    "    std",
    "    rep movsb",
    "    cld",
    "    ret",
    "hidden memset",
    "    mov r8, rdi",
    "    mov eax, esi",
    "    mov rcx, rdx",
    "    rep stosb",
    "    mov rax, r8",
    "    ret",
    "hidden bcmp",
    "hidden memcmp",
    "    xor eax, eax",
    "    xor ecx, ecx",
    "3:  cmp rcx, rdx",
    "    je 4f",
    "    movzx eax, byte ptr [rdi + rcx]",
    "    movzx r8d, byte ptr [rsi + rcx]",
    "    inc rcx",
    "    sub eax, r8d",
    "    je 3b",
    "4:  ret",
    "hidden strlen",
    "    xor eax, eax",
    "5:  cmp byte ptr [rdi + rax], 0",
    "    je 6f",
    "    inc rax",
    "    jmp 5b",
    "6:  ret",
    // Named by the tables of Rust's core library, which is built for unwinding; nothing unwinds here.
    "hidden rust_eh_personality",
    "    ud2",
);

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    system::say(b"farlane: a bug in libfarlane_redirect.so; the program cannot go on\n");
    system::exit(134)
}
