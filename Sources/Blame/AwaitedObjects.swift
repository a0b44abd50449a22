import CulpritStallRecord

/// Determines the reason for a thread's wait from its system call, the call's object, and, for a futex, the waiting
/// function.
struct AwaitedObjects {
  struct Reason: Hashable {
    var kind: StallReport.Cause.Kind
    var subject: CauseSubject?
    var isLikely = false

    init(_ kind: StallReport.Cause.Kind, _ subject: CauseSubject? = nil, isLikely: Bool = false) {
      (self.kind, self.subject, self.isLikely) = (kind, subject, isLikely)
    }

    init(_ kind: StallReport.Cause.Kind, _ object: AwaitedObject) { self.init(kind, .object(object)) }
  }

  let architecture: String

  private static let framesMax = 24

  func reason(_ sample: Sample, call number: Int32?, _ frames: [WeightedStack.Frame]) -> Reason {
    let symbols = Self.innermost(frames)
    // The purpose of the wait takes precedence over its mechanism.
    if let reason = Self.first(Self.purposes, symbols) { return reason }
    let name = number.flatMap { SystemCalls.name(of: $0, architecture: architecture) }
    switch name {
    case nil:
      return Self.first(Self.functions, symbols).map(located(symbols)) ?? Reason(.unknown, number.map { .call($0) })
    case "futex", "futex_waitv", "futex_wait", "restart_syscall":
      if let found = Self.first(Self.functions, symbols) { return located(symbols)(found) }
      return Reason(.unknown, .object(.futex))
    case let name? where SystemCalls.isSleep(name, sample.arguments): return Self.sleep(frames)
    case "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2":
      return sample.descriptor.flatMap(descriptor) ?? Reason(.signal, .events)
    default: break
    }
    guard let number, let name else { return Reason(.unknown) }
    if let kind = Self.calls[name[...]] {
      switch kind {
      case .file, .network: return onDescriptor(sample, number, fallback: kind)
      default: return Reason(kind, Self.objects[name[...]].map { .object($0) } ?? .call(number))
      }
    }
    if Self.transfers.contains(name) { return onDescriptor(sample, number, fallback: .unknown) }
    return Reason(.unknown, .call(number))
  }

  /// Returns a function that narrows a lock to the lock of the loader, a stream or the allocator.
  private func located(_ symbols: [Substring]) -> (Reason) -> Reason {
    { reason in
      guard reason.kind == .lock else { return reason }
      return Self.first(Self.lockers, symbols) ?? reason
    }
  }

  /// Functions, without leading underscores, that sleep if they poll no descriptors.
  private static let polls = words("poll ppoll select pselect poll_chk ppoll_chk")

  /// Returns a sleep. If a library sleeps between retries, the reason names the called library function.
  private static func sleep(_ frames: [WeightedStack.Frame]) -> Reason {
    let called = frames[(frames.lastIndex(where: \.isApplication).map { $0 + 1 } ?? frames.endIndex)...]
    guard let first = called.first(where: { $0.resolved.kind == .function && $0.resolved.function != nil })?.resolved
    else { return Reason(.sleep) }
    let name = first.displayName.lowercased()
    let isAsked = ["sleep", "delay", "pause"].contains(where: name.contains)
    guard !isAsked, !polls.contains((first.rawName ?? "").drop { $0 == "_" }) else { return Reason(.sleep) }
    return Reason(.sleep, .work(.library(first.displayName)))
  }

  private func onDescriptor(_ sample: Sample, _ number: Int32, fallback: StallReport.Cause.Kind) -> Reason {
    // The kernel function identifies a peer on this machine even without the peer's name.
    let kernel = sample.evidence.kernelFunction
    let isLocal = ["unix_", "__unix_", "pipe_", "anon_pipe_", "fifo_", "wait_for_partner"].contains(
      where: kernel.hasPrefix
    )
    if isLocal, let found = sample.descriptor { return Reason(.interProcess, .descriptor(found)) }
    guard let found = sample.descriptor else { return Reason(fallback, .call(number), isLikely: fallback == .unknown) }
    return descriptor(found) ?? Reason(fallback, .descriptor(found))
  }

  /// Returns the reason for a wait on `descriptor`; `nil` if the reason depends on the operation.
  private func descriptor(_ descriptor: Descriptor) -> Reason? {
    let target = descriptor.target
    if target.hasPrefix("socket:[") {
      let isLocal = descriptor.address.count >= 2 && descriptor.address[0] == 1 && descriptor.address[1] == 0
      return Reason(isLocal ? .interProcess : .network, .descriptor(descriptor))
    }
    if target.hasPrefix("pipe:[") || target.hasPrefix("/dev/pts/") || target == "/dev/tty" {
      return Reason(.interProcess, .descriptor(descriptor))
    }
    if target.hasPrefix("anon_inode:") {
      let kind = target.dropFirst("anon_inode:".count).filter { $0 != "[" && $0 != "]" }
      switch kind {
      case "eventfd": return Reason(.signal, .event)
      case "timerfd": return Reason(.sleep)
      case "signalfd": return Reason(.signal, .kernelSignal)
      case "pidfd": return Reason(.childProcess)
      case "eventpoll", "inotify", "fanotify": return Reason(.signal, .events)
      default: return Reason(.signal, .descriptor(descriptor))
      }
    }
    return target.hasPrefix("/") || descriptor.isCut ? Reason(.file, .descriptor(descriptor)) : nil
  }

  /// Returns the names of the innermost functions outside the application's code, innermost first. Removes the leading
  /// underscores of the C library's exports.
  private static func innermost(_ frames: [WeightedStack.Frame]) -> [Substring] {
    frames.reversed().prefix { !$0.isApplication }.prefix(framesMax)
      .compactMap { frame in
        guard let symbol = frame.resolved.rawName else { return nil }
        let name = symbol.hasPrefix("__GI_") ? symbol.dropFirst(5) : symbol[...]
        return name.drop { $0 == "_" }
      }
  }

  private typealias Table = [(reason: Reason, names: [String])]

  private static func table(_ lines: [(Reason, String)]) -> Table { lines.map { ($0.0, wordList($0.1)) } }

  private static func first(_ table: Table, _ symbols: [Substring]) -> Reason? {
    for symbol in symbols {
      for line in table where line.names.contains(where: { matches($0, symbol) }) { return line.reason }
    }
    return nil
  }

  /// Whether `symbol` matches `name`: it contains the rest of `*name`, equals the rest of `=name`, or starts with
  /// `name`.
  private static func matches(_ name: String, _ symbol: Substring) -> Bool {
    switch name.first {
    case "*": symbol.contains(name.dropFirst())
    case "=": symbol == name.dropFirst()
    default: symbol.hasPrefix(name)
    }
  }

  /// Functions with a known purpose that wait by polling or another unspecific mechanism.
  private static let purposes = table([
    (Reason(.childProcess), "*waitUntilExit =system =do_system =pclose"),
    (Reason(.network, nil), "getaddrinfo gethostbyname res_nquery res_nsend"),
  ])

  private static let functions = table([
    (
      Reason(.signal, .semaphore),
      "sem_wait sem_timedwait sem_clockwait new_sem_ dispatch_semaphore_wait dispatch_sema4_wait"
    ),
    (Reason(.signal, .condition), "pthread_cond_"),
    (Reason(.signal, .future), "*atomic_futex"),
    (Reason(.signal, .atomic), "*__atomic_wait *__platform_wait"),
    (Reason(.signal, .group), "dispatch_group_wait dispatch_block_wait"),
    // The implementation of concurrentPerform.
    (Reason(.signal, .iterations), "dispatch_apply"),
    (Reason(.signal, .barrier), "pthread_barrier_wait"),
    (
      Reason(.lock, .queue),
      "DISPATCH_WAIT_FOR_QUEUE dispatch_sync dispatch_barrier_sync dispatch_async_and_wait"
    ),
    (
      Reason(.initialization),
      "swift_once *once_slow dispatch_once pthread_once cxa_guard_acquire *call_once"
    ),
    (Reason(.threadEnd), "pthread_join pthread_timedjoin pthread_clockjoin thread_join"),
    (Reason(.lock, .readWriteLock), "pthread_rwlock_"),
    (Reason(.lock, .mutex), "pthread_mutex_ lll_lock_wait lll_timedlock_wait"),
    (Reason(.lock, .lock), "*_MutexHandle *UnfairLock os_unfair_lock dispatch_unfair_lock *lll_lock"),
    (Reason(.sleep), "nanosleep usleep clock_nanosleep"),
  ])

  /// Functions that wait for a mutex of the C library or the runtime.
  private static let lockers = table([
    (
      Reason(.loader),
      "dlopen dl_open dl_iterate_phdr dlsym dl_sym dlclose dl_close dl_addr dl_lookup rtld_"
    ),
    (Reason(.lock, .stream), streamNames),
    (Reason(.lock, .allocator), "malloc calloc realloc free libc_malloc int_malloc int_free arena_get"),
    (Reason(.initialization), "swift_once *once_slow dispatch_once pthread_once cxa_guard_acquire"),
  ])

  private static let streamFunctions = wordList(streamNames)

  private static let streamNames =
    """
    flockfile IO_ fputs fwrite fread vfprintf printf puts fflush fgets putc fputc getc fgetc fprintf fclose fseek ftell
    getline getdelim
    """

  static func isStreamFunction(_ name: Substring) -> Bool { streamFunctions.contains(where: name.hasPrefix) }

  private static let calls: [Substring: StallReport.Cause.Kind] = valuesByWord([
    (.childProcess, "wait4 waitid vfork"),
    (
      .file,
      """
      fsync fdatasync sync syncfs sync_file_range open openat openat2 creat stat lstat fstat newfstatat fstatat statx
      access faccessat faccessat2 rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir link linkat symlink
      symlinkat readlink readlinkat chmod fchmod fchmodat chown fchown lchown fchownat truncate ftruncate fallocate
      getdents getdents64 copy_file_range statfs fstatfs utimensat mount umount2 getxattr lgetxattr fgetxattr setxattr
      readahead fadvise64 msync io_getevents io_pgetevents io_uring_enter io_submit close lseek execve memfd_create
      """
    ),
    (.network, "connect accept accept4 recvfrom recvmsg recvmmsg sendto sendmsg sendmmsg shutdown"),
    (.lock, "flock fcntl"),
    (.signal, "pause rt_sigtimedwait rt_sigsuspend semop semtimedop"),
    (.interProcess, "msgrcv msgsnd mq_timedreceive mq_timedsend"),
    (
      .memory,
      """
      mmap munmap mprotect madvise mremap brk mlock mlock2 mlockall process_madvise migrate_pages move_pages mbind
      process_vm_readv process_vm_writev remap_file_pages
      """
    ),
  ])

  /// Calls that transfer data. The descriptor determines the reason.
  private static let transfers = words(
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 sendfile splice tee vmsplice ioctl"
  )

  private static let objects: [Substring: AwaitedObject] = valuesByWord([
    (.fileLock, "flock fcntl"),
    (.kernelSignal, "pause rt_sigtimedwait rt_sigsuspend"),
    (.semaphoreSet, "semop semtimedop"),
    (.addressSpace, "mmap munmap mprotect madvise mremap brk"),
  ])
}
