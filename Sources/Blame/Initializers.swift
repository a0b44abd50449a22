import CulpritStallRecord

/// Finds the thread that runs a one-time initialization without an owner in memory: `std::call_once`, `pthread_once`
/// and static variables of C++ functions.
///
/// Memory shows only that an initialization is in progress. The stack of the initializing thread contains the caller of
/// the waiting function, or a function that runs initializers, with callees.
struct Initializers {
  private let threads: [ThreadSample]
  private let stacks: [Stack]
  private let rules: OwnershipRules
  private let resolve: (StackFrame) -> [ResolvedFrame]
  private var known: [Int: ThreadSample?] = [:]
  private var waits: [Int: Wait?] = [:]

  private struct Wait {
    /// Whether the thread waits for an initialization that it runs itself.
    var isForItself: Bool
    var isInitializing: Bool
    var isOfSwift: Bool
  }

  private struct Function: Hashable {
    var module: String
    var start: FileAddress

    init?(_ frame: ResolvedFrame) {
      guard let start = frame.start else { return nil }
      (module, self.start) = (frame.module, start)
    }
  }

  init(
    _ stall: Stall,
    _ stacks: [Stack],
    rules: OwnershipRules,
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    threads = stall.others?.threads ?? []
    (self.stacks, self.rules, self.resolve) = (stacks, rules, resolve)
  }

  /// Returns the thread that runs the initialization for which stack `stack` waits; `nil` unless exactly one thread
  /// qualifies.
  mutating func thread(waitedForBy stack: Int) -> ThreadSample? {
    guard !threads.isEmpty, stacks.indices.contains(stack) else { return nil }
    if let known = known[stack] { return known }
    let found = find(frames(stack))
    known[stack] = .some(found)
    return found
  }

  /// Returns the thread that runs the initialization for which thread `id` waits in a cycle; `nil` without a cycle.
  /// `sample` belongs to thread `id`, `work` to the stalled thread.
  ///
  /// `swift_once` waits with FUTEX_LOCK_PI and retries if the kernel refuses to close a cycle (EDEADLK), so the thread
  /// runs although it is in a cycle. Other initializations form a cycle only if the thread waits for itself.
  mutating func ringHolder(of id: Int32, _ sample: Sample, work: (id: Int32, stack: Int?)) -> Int32? {
    guard let wait = wait(in: sample.stack) else { return nil }
    if wait.isForItself { return id }
    // Only a running thread shows that the kernel refused the wait.
    guard wait.isOfSwift, sample.activity == .running else { return nil }
    let others = threads.filter { $0.thread.id != work.id }.map { ($0.thread.id, $0.stack) } + [work]
    let members = others.filter { other in
      other.0 != id && self.wait(in: other.1).map { $0.isOfSwift && $0.isInitializing } ?? false
    }
    guard members.isEmpty else { return members.count == 1 ? members[0].0 : nil }
    return wait.isInitializing ? id : nil
  }

  func thread(_ id: Int32) -> ThreadSample? { threads.first { $0.thread.id == id } }

  private mutating func wait(in stack: Int?) -> Wait? {
    guard let stack, stacks.indices.contains(stack) else { return nil }
    if let known = waits[stack] { return known }
    let found = findWait(frames(stack))
    waits[stack] = .some(found)
    return found
  }

  private func findWait(_ frames: [ResolvedFrame]) -> Wait? {
    func isAnyOnce(_ frame: ResolvedFrame) -> Bool { Self.isSwiftOnce(frame) || Self.isOnce(frame) }
    guard let first = frames.firstIndex(where: isAnyOnce), frames[..<first].allSatisfy(Self.isSystemCall) else {
      return nil
    }
    let callers = frames.indices.dropLast().filter { isAnyOnce(frames[$0]) && !isAnyOnce(frames[$0 + 1]) }
      .map { Function(frames[$0 + 1]) }
    guard let waiting = callers.first else { return nil }
    return Wait(
      isForItself: waiting != nil && callers.dropFirst().contains(waiting),
      isInitializing: callers.count > 1,
      isOfSwift: Self.isSwiftOnce(frames[first])
    )
  }

  private func frames(_ stack: Int) -> [ResolvedFrame] { stacks[stack].frames.flatMap(resolve) }

  private func find(_ frames: [ResolvedFrame]) -> ThreadSample? {
    guard let caller = waitingCaller(frames) else { return nil }
    var callers: [ThreadSample] = []
    var initializers: [ThreadSample] = []
    for thread in threads {
      guard let stack = thread.stack, stacks.indices.contains(stack) else { continue }
      let others = self.frames(stack)
      guard waitingCaller(others) == nil else { continue }
      if let place = others.firstIndex(where: { Function($0) == caller }), place > 0 { callers.append(thread) }
      if others.contains(where: Self.isOnce) { initializers.append(thread) }
    }
    let found = callers.isEmpty ? initializers : callers
    return found.count == 1 ? found[0] : nil
  }

  private func waitingCaller(_ frames: [ResolvedFrame]) -> Function? {
    let inner = frames.prefix { Self.isOnce($0) || !CodeOwner.isApplication($0, rules) }
    guard let last = inner.lastIndex(where: Self.isOnce), frames.indices.contains(last + 1) else { return nil }
    return Function(frames[last + 1])
  }

  private static func isOnce(_ frame: ResolvedFrame) -> Bool {
    guard let symbol = frame.rawName else { return false }
    return names.contains(where: symbol.contains)
  }

  private static func isSwiftOnce(_ frame: ResolvedFrame) -> Bool {
    guard let symbol = frame.rawName else { return false }
    return symbol.hasPrefix("swift_once") || (symbol.hasPrefix("_ZN5swift14threading_impl") && symbol.contains("once"))
  }

  private static func isSystemCall(_ frame: ResolvedFrame) -> Bool {
    // Outside the C library, a function without a name can wait for a group or a semaphore, or compute.
    guard let symbol = frame.rawName else { return frame.function == nil && isInCLibrary(frame) }
    let name = symbol.drop { $0 == "_" }
    return ["syscall", "futex", "lll_"].contains(where: name.hasPrefix) || name.contains("ulock")
  }

  private static func isInCLibrary(_ frame: ResolvedFrame) -> Bool {
    let file = frame.module.split(separator: "/").last ?? ""
    return ["libc.so", "libpthread.so", "ld-musl"].contains(where: file.hasPrefix)
  }

  private static let names = ["thread_once", "call_once", "cxa_guard_acquire"]
}
