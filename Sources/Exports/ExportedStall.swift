import CulpritBlame
import CulpritStallRecord

/// A recording whose stalls are exported.
final class ExportedRecording {
  /// The process; `nil` when a damaged file has lost it.
  let process: ObservedProcess?
  /// What was mapped into it.
  let modules: [Module]
  /// Its stacks and frames. There are more of them with each stall.
  let stacks: ProfileStacks
  private var names: [String?] = []

  init(_ recording: Recording, _ stacks: ProfileStacks) {
    process = recording.process
    modules = recording.modules
    self.stacks = stacks
  }

  /// "shop (process 4242)".
  var processName: String {
    guard let process else { return "a process that is not known" }
    return "\(executableName) (process \(process.id))"
  }

  /// The last component of the executable's path.
  var executableName: String {
    let path = process?.executable ?? ""
    return printable(path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(path[path.index(after: $0)...]) } ?? path)
  }

  /// What readers see of the frame at `place`: the name that reports have, with nothing in it that a terminal would obey.
  func name(_ place: Int) -> String {
    if names.count <= place { names += [String?](repeating: nil, count: stacks.frames.count - names.count) }
    if let name = names[place] { return name }
    // Readers would show nothing where nothing is to be seen.
    let name = visible(printable(stacks.frames[place].resolved.displayName))
    names[place] = name
    return name
  }
}

/// A stall that is exported, and what was found out about it.
struct ExportedStall {
  let recording: ExportedRecording
  let profile: StallProfile
  /// Who is to blame and why, for formats that have a place for it.
  let blame: Blame?

  /// The stall.
  var stall: Stall { profile.stall }

  /// "event loop "http"".
  var source: String { "\(stall.source.kind.description) \"\(printable(stall.source.name))\"" }

  /// What tells it from all others.
  var id: String { stall.reportID(in: recording.process) }

  /// "example-service (thread 4242)", or what of that is known.
  func name(of thread: ObservedThread) -> String {
    guard thread.id != 0 else { return "no single thread" }
    return thread.name.isEmpty ? "thread \(thread.id)" : "\(printable(thread.name)) (thread \(thread.id))"
  }

  /// What a thread did: "running", "waiting in futex".
  func state(_ activity: ThreadActivity) -> String? {
    switch activity {
    case .unknown: nil
    case .running: "running"
    case .inSystemCall(let call): "waiting in \(callName(call))"
    case .inRestartedCall(let call): call.map { "waiting in \(callName($0))" } ?? "waiting in a restarted system call"
    case .blocked: "waiting outside a system call"
    case .suspended: "suspended at an await"
    case .enqueued: "ready, without a thread"
    }
  }

  private func callName(_ call: Int32) -> String {
    SystemCalls.name(of: call, architecture: recording.process?.architecture ?? "") ?? "system call \(call)"
  }

  /// What the application had said of the work, as a number of its profile's; `nil` where it had said nothing.
  func label(_ number: Int32) -> String? {
    let label = profile.labels[Int(number)]
    return label.isEmpty ? nil : printable(label)
  }

  /// The name of the function that is to blame; `nil` where none is.
  var culprit: String? { blame?.culprit.map { visible(printable($0.frame.displayName)) } }
}
