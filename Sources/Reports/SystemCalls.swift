import CulpritBlame

/// Names of the system calls that threads wait in.
enum SystemCalls {
  /// "futex", "clock_nanosleep (restarted)"; `nil` if none is known.
  static func text(_ waiting: Waiting, _ architecture: String) -> String? {
    guard let call = waiting.systemCall else { return waiting.isRestarted ? "a restarted system call" : nil }
    return name(of: call, architecture: architecture) + (waiting.isRestarted ? " (restarted)" : "")
  }

  /// The name of the call with `number`, or its number where the table lacks it.
  static func name(of number: Int32, architecture: String) -> String {
    let table = architecture == "aarch64" ? generic : architecture == "x86_64" ? x86 : [:]
    return table[number] ?? "system call \(number)"
  }

  /// From arch/x86/entry/syscalls/syscall_64.tbl.
  private static let x86: [Int32: String] = [
    0: "read", 1: "write", 7: "poll", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 23: "select",
    26: "msync",
    34: "pause", 35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg",
    47: "recvmsg",
    61: "wait4", 65: "semop", 69: "msgsnd", 70: "msgrcv", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync",
    128: "rt_sigtimedwait", 130: "rt_sigsuspend", 202: "futex", 208: "io_getevents", 219: "restart_syscall",
    220: "semtimedop",
    230: "clock_nanosleep", 232: "epoll_wait", 243: "mq_timedreceive", 247: "waitid", 257: "openat", 270: "pselect6",
    271: "ppoll", 281: "epoll_pwait", 288: "accept4", 295: "preadv", 296: "pwritev", 299: "recvmmsg", 306: "syncfs",
    426: "io_uring_enter", 441: "epoll_pwait2", 449: "futex_waitv",
  ]

  /// From include/uapi/asm-generic/unistd.h, which aarch64 uses.
  private static let generic: [Int32: String] = [
    4: "io_getevents", 22: "epoll_pwait", 25: "fcntl", 32: "flock", 56: "openat", 63: "read", 64: "write", 65: "readv",
    66: "writev", 67: "pread64", 68: "pwrite64", 69: "preadv", 70: "pwritev", 72: "pselect6", 73: "ppoll", 82: "fsync",
    83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep", 128: "restart_syscall",
    133: "rt_sigsuspend",
    137: "rt_sigtimedwait", 183: "mq_timedreceive", 188: "msgrcv", 189: "msgsnd", 192: "semtimedop", 193: "semop",
    202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 227: "msync",
    242: "accept4", 243: "recvmmsg", 260: "wait4", 267: "syncfs", 426: "io_uring_enter", 441: "epoll_pwait2",
    449: "futex_waitv",
  ]
}
