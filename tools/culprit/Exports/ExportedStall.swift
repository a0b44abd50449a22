import CulpritBlame
import CulpritStallRecord

final class ExportedRecording {
  /// `nil` if a damaged file has lost the record.
  let process: ObservedProcess?
  let modules: [Module]
  let stacks: ProfileStacks
  private var names: [String?] = []

  init(_ recording: Recording, _ stacks: ProfileStacks) {
    process = recording.process
    modules = recording.modules
    self.stacks = stacks
  }

  /// Executable and process ID, as in "shop (process 4242)".
  var processName: String {
    guard let process else { return "an unknown process" }
    return "\(executableName) (process \(process.id))"
  }

  var executableName: String { printable((process?.executable ?? "").lastComponent) }

  /// Returns the display name, as in reports, without terminal control characters.
  func name(_ place: Int) -> String {
    if names.count <= place { names += [String?](repeating: nil, count: stacks.frames.count - names.count) }
    if let name = names[place] { return name }
    // Readers would show nothing for invisible names.
    let name = visible(printable(stacks.frames[place].resolved.displayName))
    names[place] = name
    return name
  }
}

struct ExportedStall {
  let recording: ExportedRecording
  let profile: StallProfile
  /// `nil` for formats without blame.
  let blame: StallReport?

  var stall: Stall { profile.stall }

  var source: String { "\(stall.source.kind.description) \"\(printable(stall.source.name))\"" }

  var id: String { stall.reportID(in: recording.process) }

  func name(of thread: ObservedThread) -> String {
    guard thread.id != 0 else { return "no single thread" }
    return thread.name.isEmpty ? "thread \(thread.id)" : "\(printable(thread.name)) (thread \(thread.id))"
  }

  /// Returns the activity, as in "running" or "waiting in futex".
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

  func label(_ number: Int32) -> String? {
    let label = profile.labels[Int(number)]
    return label.isEmpty ? nil : printable(label)
  }

  /// `nil` if no function is to blame.
  var culprit: String? { blame?.culprit.map { visible($0.function.name) } }
}
