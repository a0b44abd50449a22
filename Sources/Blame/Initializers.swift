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

  private static let names = ["thread_once", "call_once", "cxa_guard_acquire"]
}
