import CulpritBlame
import CulpritStallRecord

/// A recording whose stalls are exported.
final class ExportedRecording {
  /// The process; `nil` when a damaged file has lost its record.
  let process: ObservedProcess?
  /// The modules mapped into the process.
  let modules: [Module]
  /// The stacks and frames. Each stall adds to them.
  let stacks: ProfileStacks
  private var names: [String?] = []

  init(_ recording: Recording, _ stacks: ProfileStacks) {
    process = recording.process
    modules = recording.modules
    self.stacks = stacks
  }

  /// The executable's name and the process ID, as in "shop (process 4242)".
  var processName: String {
    guard let process else { return "a process that is not known" }
    return "\(executableName) (process \(process.id))"
  }

  /// The last component of the executable's path.
  var executableName: String {
    let path = process?.executable ?? ""
    return printable(path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(path[path.index(after: $0)...]) } ?? path)
  }

  /// Returns the display name of the frame at `place`, as in reports, without terminal control characters.
  func name(_ place: Int) -> String {
    if names.count <= place { names += [String?](repeating: nil, count: stacks.frames.count - names.count) }
    if let name = names[place] { return name }
    // Invisible names would show as nothing in readers.
    let name = visible(printable(stacks.frames[place].resolved.displayName))
    names[place] = name
    return name
  }
}

/// An exported stall and its analysis.
struct ExportedStall {
  let recording: ExportedRecording
  let profile: StallProfile
  /// The analysis of the stall, for formats that can hold it.
  let blame: StallReport?

  var stall: Stall { profile.stall }

  /// The kind and name of the source, as in `event loop "http"`.
  var source: String { "\(stall.source.kind.description) \"\(printable(stall.source.name))\"" }

  /// The unique identifier of the stall.
  var id: String { stall.reportID(in: recording.process) }

  /// Returns the known parts of a thread's name and number, as in "example-service (thread 4242)".
  func name(of thread: ObservedThread) -> String {
    guard thread.id != 0 else { return "no single thread" }
    return thread.name.isEmpty ? "thread \(thread.id)" : "\(printable(thread.name)) (thread \(thread.id))"
  }

  /// Returns the activity of a thread, as in "running" or "waiting in futex".
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

  /// Returns the application's label number `number` of the profile; `nil` if the label is empty.
  func label(_ number: Int32) -> String? {
    let label = profile.labels[Int(number)]
    return label.isEmpty ? nil : printable(label)
  }

  /// The name of the culprit function; `nil` if no function is to blame.
  var culprit: String? { blame?.culprit.map { visible($0.function.name) } }
}
