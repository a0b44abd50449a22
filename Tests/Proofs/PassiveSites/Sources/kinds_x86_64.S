/* Frames that compilers rarely or never make. */
  .text
.macro function name
  .balign 16
  .globl \name
  .type \name, @function
\name:
.endm

/* GCC's code for a variable that is aligned to 32 bytes, and a variable-length array. */
function kinds_expression
  .cfi_startproc
  lea 8(%rsp), %r10
  .cfi_def_cfa 10, 0
  and $-32, %rsp
  push -8(%r10)
  push %rbp
  mov %rsp, %rbp
  .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00 /* rbp is saved at rbp + 0 */
  push %r10
  .cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06 /* the frame's address is stored at rbp - 8 */
  sub $40, %rsp
  call kinds_inner@PLT
  mov -8(%rbp), %r10
  .cfi_def_cfa 10, 0
  leave
  lea -8(%r10), %rsp
  .cfi_def_cfa 7, 8
  ret
  .cfi_endproc

function kinds_trap
  .cfi_startproc
  nop
  ud2
  ret
  .cfi_endproc

function kinds_through_stub
  .cfi_startproc
  sub $8, %rsp
  .cfi_def_cfa_offset 16
  lea text(%rip), %rdi
  call strlen@PLT
  .globl kinds_stub_return
kinds_stub_return:
  add $8, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc

/* No .cfi directives: the unwind table has no entry for these functions. */
function kinds_bare_framed
  push %rbp
  mov %rsp, %rbp
  push %rbx
  sub $24, %rsp
  call kinds_inner@PLT
  add $24, %rsp
  pop %rbx
  pop %rbp
  ret

function kinds_bare_unframed
  sub $24, %rsp
  call kinds_inner@PLT
  add $24, %rsp
  ret

function kinds_bare_leaf
  mov $20, %ecx
1: dec %ecx
  jnz 1b
  ret

/* Functions with unwind information that jump to functions without it. */
function kinds_jumps_to_leaf
  .cfi_startproc
  jmp kinds_jumped_leaf
  .cfi_endproc

function kinds_jumps_to_framed
  .cfi_startproc
  jmp kinds_jumped_framed
  .cfi_endproc

function kinds_jumped_leaf
  mov $20, %ecx
1: dec %ecx
  jnz 1b
  ret

function kinds_jumped_framed
  push %rbp
  mov %rsp, %rbp
  push %rbx
  sub $24, %rsp
  lea kinds_trap(%rip), %rax
  mov %rax, 8(%rsp)
  mov $20, %ecx
1: dec %ecx
  jnz 1b
  add $24, %rsp
  pop %rbx
  pop %rbp
  ret

/* Ends in a jump through a register instead of a return. */
function kinds_bare_goes_on
  push %r14
  push %rbx
  push %rax
  mov $20, %ecx
1: dec %ecx
  jnz 1b
  lea kinds_jumped_leaf(%rip), %rax
  add $8, %rsp
  pop %rbx
  pop %r14
  jmp *%rax

/* Jumps through a table, and calls a function that does not return. */
function kinds_bare_switch
  push %rbp
  mov %rsp, %rbp
  push %rbx
  push %rax
  mov kinds_sink@GOTPCREL(%rip), %rax
  mov (%rax), %eax
  and $1, %eax
  lea 4f(%rip), %rcx
  movslq (%rcx,%rax,4), %rax
  add %rcx, %rax
  jmp *%rax
2: mov $20, %ecx
1: dec %ecx
  jnz 1b
  jmp 5f
  .balign 16
3: mov $20, %ecx
1: dec %ecx
  jnz 1b
5: add $8, %rsp
  pop %rbx
  pop %rbp
  ret
  call abort@PLT
  .section .rodata
  .balign 4
4: .long 2b - 4b, 3b - 4b
text: .asciz "text"
  .text

/* Its previous stack pointer is only in another register. */
function kinds_bare_lost
  push %rbx
  mov $3, %ecx
1: dec %ecx
  jnz 1b
  mov $160, %eax
  mov %rsp, %rbx
  sub %rax, %rsp
  mov $20, %ecx
1: dec %ecx
  jnz 1b
  mov %rbx, %rsp
  pop %rbx
  ret

/* Calls two functions by one instruction. A callee of the first function leaves its return address in an unused part of
 * the second function's frame. */
function kinds_left_over
  .cfi_startproc
  push %rbx
  .cfi_def_cfa_offset 16
  .cfi_offset rbx, -16
  lea former(%rip), %rbx
1: call *%rbx
  lea latter(%rip), %rax
  cmp %rax, %rbx
  mov %rax, %rbx
  jne 1b
  pop %rbx
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc

function former
  .cfi_startproc
  sub $40, %rsp
  .cfi_def_cfa_offset 48
  call kinds_bare_leaf
  add $40, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc

function latter
  .cfi_startproc
  sub $120, %rsp
  .cfi_def_cfa_offset 128
  call kinds_bare_lost
  add $120, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .section .note.GNU-stack, "", @progbits
