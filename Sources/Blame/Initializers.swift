import CulpritStallRecord

/// Who initializes what other threads wait for, where nothing in memory says it: `std::call_once`, `pthread_once` and the static
/// variables of C++ functions.
///
/// Their words tell that somebody is at it, and not who. But the one who is has been through the same function, or through the one
/// that calls initializers, and has gone on from there.
struct Initializers {
  private let threads: [ThreadSample]
  private let stacks: [Stack]
  private let rules: OwnershipRules
  private let resolve: (StackFrame) -> [ResolvedFrame]
  /// Who was found, by the stacks of those who wait.
  private var known: [Int: ThreadSample?] = [:]
  /// Waits for initializations, by stacks.
  private var waits: [Int: Wait?] = [:]

  /// A wait for something that is initialized once, as a stack shows it.
  private struct Wait {
    /// Whether the function that waits is further out on the stack, where it started that initialization: the thread waits for itself.
    var isForItself: Bool
    /// Whether the thread itself initializes something.
    var isInitializing: Bool
    /// Whether `swift_once` waits.
    var isOfSwift: Bool
  }

  /// What tells functions apart.
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

  /// The thread that does what the stack with this number waits for. `nil` where that waits for something else, or where it may be
  /// several.
  mutating func thread(waitedForBy stack: Int) -> ThreadSample? {
    guard !threads.isEmpty, stacks.indices.contains(stack) else { return nil }
    if let known = known[stack] { return known }
    let found = find(frames(stack))
    known[stack] = .some(found)
    return found
  }

  /// The thread that holds the initialization for which the thread `id` waits in a ring of threads; `nil` where it is in none.
  ///
  /// `swift_once` waits with FUTEX_LOCK_PI. The kernel refuses a wait that would close a ring (EDEADLK), and `swift_once` asks again:
  /// the thread runs although it is in a ring. Another kind of initialization is in a ring only if the thread waits for itself.
  ///
  /// - Parameters:
  ///   - id: The thread.
  ///   - sample: A sample of that thread.
  ///   - work: The thread of the stalled work, and its stack.
  /// - Returns: The id of the holder.
  mutating func ringHolder(of id: Int32, _ sample: Sample, work: (id: Int32, stack: Int?)) -> Int32? {
    guard let wait = wait(in: sample.stack) else { return nil }
    if wait.isForItself { return id }
    // Without the thread's state, nothing shows that the kernel refused the wait.
    guard wait.isOfSwift, sample.activity == .running else { return nil }
    let others = threads.filter { $0.thread.id != work.id }.map { ($0.thread.id, $0.stack) } + [work]
    let members = others.filter { other in
      other.0 != id && self.wait(in: other.1).map { $0.isOfSwift && $0.isInitializing } ?? false
    }
    guard members.isEmpty else { return members.count == 1 ? members[0].0 : nil }
    return wait.isInitializing ? id : nil
  }

  /// The thread with the id `id`, as it was seen when the stall was declared.
  func thread(_ id: Int32) -> ThreadSample? { threads.first { $0.thread.id == id } }

  /// The wait for an initialization that the innermost functions of `stack` are at; `nil` where they do something else.
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
    // Each caller of a function that initializes once, the innermost first.
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

  /// The function that has called what waits for an initialization; `nil` where the thread with these frames, innermost first, does not
  /// wait for one.
  private func waitingCaller(_ frames: [ResolvedFrame]) -> Function? {
    let inner = frames.prefix { Self.isOnce($0) || !CodeOwner.isApplication($0, rules) }
    guard let last = inner.lastIndex(where: Self.isOnce), frames.indices.contains(last + 1) else { return nil }
    return Function(frames[last + 1])
  }

  /// Whether `frame` is of a function that waits until something has been initialized, or has it initialized.
  private static func isOnce(_ frame: ResolvedFrame) -> Bool {
    guard let symbol = frame.rawName else { return false }
    return names.contains(where: symbol.contains)
  }

  /// Whether `frame` is of `swift_once`, or of the part of it that waits.
  private static func isSwiftOnce(_ frame: ResolvedFrame) -> Bool {
    guard let symbol = frame.rawName else { return false }
    return symbol.hasPrefix("swift_once") || (symbol.hasPrefix("_ZN5swift14threading_impl") && symbol.contains("once"))
  }

  /// Whether `frame` is of a function that makes a system call, and does nothing else.
  private static func isSystemCall(_ frame: ResolvedFrame) -> Bool {
    // A function without a name elsewhere can wait for a group or a semaphore, or compute.
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
