import CulpritStallRecord

/// A stack in which a task's async callers, if known, replace the frames that only run it.
///
/// A valid caller is the start of a resumption part of an async function, by its symbol. Others are omitted; unnamed
/// ones are counted.
package struct TaskStack: Sendable {
  package var called: ArraySlice<StackFrame>
  package var awaiting: ArraySlice<StackFrame>
  package var end: StackEnd

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

  enum Kind {
    case task
    case thread
    case unknown
  }

  /// The kind of the stack. A thread's stack is complete and contains no task.
  var kind: Kind { awaiting.isEmpty ? end == .outermost ? .thread : .unknown : .task }

  func namesOfAwaiting(_ resolve: (StackFrame) -> [ResolvedFrame])
    -> (frames: [(captured: StackFrame, names: [ResolvedFrame])], unknown: Int)
  {
    var frames: [(captured: StackFrame, names: [ResolvedFrame])] = []
    var unknown = 0
    for frame in awaiting where frame.kind == .asyncCaller {
      var resolved = resolve(frame)
      guard let function = resolved.last else { continue }
      if function.isResumption(at: frame) {
        guard function.kind == .function else { continue }
        for place in resolved.indices { resolved[place].isAwaiting = true }
        frames.append((frame, resolved))
      } else if function.rawName == nil {
        unknown += 1
      }
    }
    return (frames, unknown)
  }

  package func resolve(_ resolve: (StackFrame) -> [ResolvedFrame]) -> [ResolvedFrame] {
    (called.flatMap(resolve) + namesOfAwaiting(resolve).frames.flatMap(\.names)).namingMergedFunctions()
  }
}

extension FrameKind {
  fileprivate var isOfTask: Bool { self != .programCounter && self != .returnAddress }
}

extension ResolvedFrame {
  /// Whether the function is a part of an async function and starts at `frame`. The symbol ends in `TQ` or `TY`, a
  /// number, and an underscore (Swift's docs/ABI/Mangling.rst).
  fileprivate func isResumption(at frame: StackFrame) -> Bool {
    guard let rawName, rawName.hasSuffix("_"), start.map({ $0.value == address.value }) ?? false else { return false }
    let head = rawName.utf8.dropLast().reversed().drop { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    return head.starts(with: "QT".utf8) || head.starts(with: "YT".utf8)
  }
}
