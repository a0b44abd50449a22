import CulpritBlame
import CulpritStallRecord

/// All threads of a process as text: those that were doing the same together, with their stacks.
package struct ThreadsText: Sendable {
  /// The threads by what they were doing.
  package var groups: [ThreadGroup]
  /// Threads that could not be captured.
  package var leftOut: Int
  /// Whether the capture was finished.
  package var isComplete: Bool
  /// The processor architecture, for the names of system calls.
  package var architecture: String

  private let names: FunctionNames
  /// The most threads of a group that are named.
  private static let namedThreads = 6
  /// The most groups that a summary has.
  private static let summarizedGroups = 6
  /// The most functions of the application that a summary names for a group.
  private static let summarizedFunctions = 3

  /// The threads of `all`, put together to `groups`.
  package init(_ all: AllThreads, groups: [ThreadGroup], architecture: String) {
    self.init(all, groups: groups, architecture: architecture, names: FunctionNames(groups.flatMap(\.frames)))
  }

  /// The same for a part of a report in which functions are called by `names`.
  init(_ all: AllThreads, groups: [ThreadGroup], architecture: String, names: FunctionNames) {
    self.groups = groups
    self.names = names
    self.architecture = architecture
    leftOut = all.leftOut
    isComplete = all.isComplete
  }

  /// How many threads there are.
  package var count: Int { groups.reduce(0) { $0 + $1.threads.count } }

  /// Every group with its whole stack, in lines of at most `width` characters, but at least 40.
  package func text(width: Int = 100) -> String {
    let width = max(40, width)
    var lines = Formatting.wrapped(heading + shortfall, width)
    for group in groups {
      lines += [""] + Formatting.wrapped(title(group), width)
      for (number, frame) in group.frames.enumerated() {
        let head = Formatting.right("#\(number)", 5) + " "
        let room = width - head.count
        let name = names.name(frame)
        let both = "\(name)  (\(Formatting.origin(frame)))"
        lines.append(head + Formatting.fitted(both.count <= room ? both : name, room))
      }
      if let why = missing(group) { lines += Formatting.wrapped(why, width - 6).map { "      " + $0 } }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The groups in short, as paragraphs: for a report on something else.
  func summary(_ when: String) -> [String] {
    var paragraphs = ["\(Formatting.count(count, "other thread")) \(when)\(shortfall)"]
    for group in groups.prefix(Self.summarizedGroups) { paragraphs.append("\(title(group)): \(place(group))") }
    let rest = groups.dropFirst(Self.summarizedGroups)
    if !rest.isEmpty {
      let threads = rest.reduce(0) { $0 + $1.threads.count }
      let places = Formatting.count(rest.count, "other place")
      paragraphs.append("\(Formatting.count(threads, "thread")) more, in \(places)")
    }
    return paragraphs
  }

  private var heading: String {
    groups.count == count
      ? Formatting.count(count, "thread")
      : "\(Formatting.count(count, "thread")), those with the same stack together"
  }

  private var shortfall: String {
    var text = leftOut > 0 ? "; \(Formatting.count(leftOut, "thread")) could not be captured" : ""
    if !isComplete { text += "; the capture was not finished" }
    return text
  }

  /// "3 threads waiting in futex: "worker" 12, "worker" 13 and 1 other".
  private func title(_ group: ThreadGroup) -> String {
    let named = group.threads.prefix(Self.namedThreads)
      .map { thread in
        thread.name.isEmpty ? "\(thread.id)" : "\"\(printable(thread.name))\" \(thread.id)"
      }
    var names = named.joined(separator: ", ")
    let rest = group.threads.count - named.count
    if rest > 0 { names += " and \(Formatting.count(rest, "other"))" }
    let count = group.threads.count == 1 ? "" : "\(Formatting.count(group.threads.count, "thread")) "
    return "\(count)\(doing(group)): \(names)"
  }

  private func doing(_ group: ThreadGroup) -> String {
    switch group.activity {
    case .running: "computing"
    case .inSystemCall(let call): "waiting in \(SystemCalls.name(of: call, architecture: architecture))"
    case .inRestartedCall(let call):
      call.map { "waiting in \(SystemCalls.name(of: $0, architecture: architecture)) (restarted)" }
        ?? "waiting in a restarted system call"
    case .blocked: "waiting outside a system call"
    case .unknown: "doing what is not known"
    }
  }

  /// Where the threads of a group are: the application's nearest functions, or the outermost one that is known.
  private func place(_ group: ThreadGroup) -> String {
    let own = zip(group.frames, group.isApplication).filter(\.1).map(\.0).prefix(Self.summarizedFunctions)
    guard own.isEmpty else {
      return "in " + own.map { "\(names.name($0)) (\(Formatting.origin($0)))" }.joined(separator: ", from ")
    }
    guard let innermost = group.frames.first else { return "no stack: \(group.outcome.explanation)" }
    return "in \(names.name(innermost)) (\(Formatting.origin(innermost))), no code of the application"
  }

  private func missing(_ group: ThreadGroup) -> String? {
    if group.frames.isEmpty { return "no stack: \(group.outcome.explanation)" }
    return group.end.explanation.map { "callers are missing: \($0)" }
  }
}
