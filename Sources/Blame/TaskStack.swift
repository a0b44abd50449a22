import CulpritStallRecord

/// A stack as readers want it: where a task's async callers are known, they take the place of what only runs the task.
///
/// What was recorded is evidence, which names decide about: what a caller is said to go on in must be the beginning of such a
/// part of an async function. What is not is left out; where it may have been a caller all the same, it is counted.
package struct TaskStack: Sendable {
  /// The frames that were found by unwinding, innermost first.
  package var called: ArraySlice<StackFrame>
  /// Those of async callers, innermost first.
  package var awaiting: ArraySlice<StackFrame>
  /// Why there are no more.
  package var end: StackEnd

  /// That of `stack`.
  package init(_ stack: Stack) {
    let frames = stack.frames
    guard let first = frames.firstIndex(where: \.kind.isOfTask), let last = frames.lastIndex(where: \.kind.isOfTask)
    else {
      (called, awaiting, end) = (frames[...], [], stack.end)
      return
    }
    (called, awaiting) = (frames[..<first], frames[first...last])
    switch frames[last].kind {
    case .taskStart: end = .outermost
    case .childStart: end = .childTask
    case .taskLost: end = .taskLost
    default: end = .frameLimit
    }
  }

  /// Whose stack it is, as far as can be told.
  enum Kind {
    case task
    case thread
    case unknown
  }

  /// Whose stack it is: a thread's is known to the end, and no task is on it.
  var kind: Kind { awaiting.isEmpty ? end == .outermost ? .thread : .unknown : .task }

  /// The names of the async callers, and how many frames that may be some have none.
  package func resolveAwaiting(_ resolve: (StackFrame) -> [ResolvedFrame]) -> (frames: [ResolvedFrame], unknown: Int) {
    let (frames, unknown) = namesOfAwaiting(resolve)
    return (frames.flatMap(\.names), unknown)
  }

  /// The same, with the frame that each of the names is of.
  func namesOfAwaiting(_ resolve: (StackFrame) -> [ResolvedFrame])
    -> (frames: [(captured: StackFrame, names: [ResolvedFrame])], unknown: Int)
  {
    var frames: [(captured: StackFrame, names: [ResolvedFrame])] = []
    var unknown = 0
    for frame in awaiting where frame.kind == .asyncCaller {
      var resolved = resolve(frame)
      guard let function = resolved.last else { continue }
      if function.isResumption(at: frame) {
        // What the compiler has put between two functions tells nothing here.
        guard function.kind == .function else { continue }
        for place in resolved.indices { resolved[place].isAwaiting = true }
        frames.append((frame, resolved))
      } else if function.rawName == nil {
        unknown += 1
      }
    }
    return (frames, unknown)
  }

  /// The names of all frames.
  package func resolve(_ resolve: (StackFrame) -> [ResolvedFrame]) -> [ResolvedFrame] {
    (called.flatMap(resolve) + resolveAwaiting(resolve).frames).namingMergedFunctions()
  }
}

extension FrameKind {
  fileprivate var isOfTask: Bool { self != .programCounter && self != .returnAddress }
}

extension ResolvedFrame {
  /// Whether the function is the part of an async one that begins at `frame`: its symbol ends in `TQ` or `TY`, a number, and an
  /// underscore (docs/ABI/Mangling.rst of Swift: "await resume partial function", "suspend resume partial function").
  fileprivate func isResumption(at frame: StackFrame) -> Bool {
    guard let rawName, rawName.hasSuffix("_"), start.map({ $0.value == address.value }) ?? false else { return false }
    let head = rawName.utf8.dropLast().reversed().drop { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    return head.starts(with: "QT".utf8) || head.starts(with: "YT".utf8)
  }
}
