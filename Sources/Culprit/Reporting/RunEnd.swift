import CulpritBlackBox
import CulpritReports
import CulpritStallRecord
import Glibc

extension Watchdog.PreviousRun {
  /// Reads the files with open stalls one at a time.
  init(
    _ record: RunRecord,
    _ verdict: RunVerdict,
    _ stalls: BlackBoxDirectory.RunStalls,
    directory: String,
    _ settings: ReportSettings,
    read: (String) -> StallFile?
  ) {
    ending = Ending(verdict)
    endingText = verdict.description
    var problems = stalls.problems
    processID = record.identity.process
    executable = record.executable
    since = StallReport.Timestamp(record.since)
    signal = record.crash?.signal ?? record.terminated.map { _ in SIGTERM }
    files = stalls.saved.map { "\(directory)/\($0.name)" }
    var hangs: [FatalHang] = []
    var texts: [String] = []
    for group in Self.unreported(stalls, directory: directory, settings, &problems, read) {
      guard let recording = read(group.file)?.recording, let stall = group.stall(in: recording) else { continue }
      // The process id might belong to another process now.
      let symbolizer = settings.symbolizer(of: recording, process: nil)
      let report = settings.report(of: stall, in: recording, symbolizer)
      texts.append(report.description)
      guard !stall.hasEnded else { continue }
      let lastStacks = settings.builder(recording, symbolizer).lastStacks(of: stall)
      hangs.append(FatalHang(boxed: Boxed(report), lastStacks: lastStacks))
      texts.append(LastStacksText(lastStacks).text(width: settings.width))
      if let others = report.otherThreads, others.count > 0 { texts.append(others.text(width: settings.width)) }
    }
    let left = stalls.saved.count { $0.isPending } - Self.pendingMax
    if left > 0 { texts.append("\(left) more stalls had ended before, and their reports were pending\n") }
    self.problems = problems.map { printable($0) }
    self.hangs = hangs
    self.texts = texts
  }

  private static let pendingMax = 16

  /// A stall, or all sections of one name at one place.
  private struct Unreported {
    var file: String
    var stalls: [Stall]

    /// The order of reports: a stuck thread can block requests.
    var rank: Int { (stalls[0].hasEnded ? 2 : 0) + (stalls[0].source.kind == .section ? 1 : 0) }

    /// Returns the first stall from `recording`, with the count of the group.
    func stall(in recording: Recording) -> Stall? {
      guard var stall = recording.stalls.first(where: { $0.id == stalls[0].id }) else { return nil }
      if let count = StallCount(of: stalls) {
        stall.notes.removeAll { $0.kind == .count }
        stall.notes.append(count.note)
      }
      return stall
    }
  }

  private struct Kinship: Hashable {
    var source: WatchedSource
    var place: [RuntimeAddress]
    var hasEnded: Bool
  }

  /// Returns the stalls that the run has not reported: first those without an end, then those with pending reports.
  private static func unreported(
    _ stalls: BlackBoxDirectory.RunStalls,
    directory: String,
    _ settings: ReportSettings,
    _ problems: inout [String],
    _ read: (String) -> StallFile?
  ) -> [Unreported] {
    var unreported: [Unreported] = []
    var places: [Kinship: Int] = [:]
    let open = stalls.saved.filter { $0.isOpen && !$0.isReported }
    for saved in open + stalls.saved.filter(\.isPending).suffix(pendingMax) {
      if let obstacle = MemoryRoom.obstacle(names: settings.symbolMemory, file: saved.bytes) {
        problems.append("\(directory)/\(saved.name) is not read, because memory is short: \(obstacle)")
        continue
      }
      guard let file = read(saved.name) else {
        problems.append("\(directory)/\(saved.name) cannot be read")
        continue
      }
      problems += file.problems.map { "\(directory)/\(saved.name): \($0)" }
      // The search for open stalls might have missed the end of a stall in a large file.
      for var stall in file.recording.stalls where !stall.hasEnded || saved.isPending {
        let stack = stall.samples.last { $0.stack != nil }?.stack.map { file.recording.stacks[$0] }
        let place = stack?.frames.prefix(Stack.framesOfPlace).map(\.address) ?? []
        let kinship = Kinship(source: stall.source, place: place, hasEnded: stall.hasEnded)
        (stall.samples, stall.holders, stall.others) = ([], [], nil)
        if stall.source.kind == .section, let index = places[kinship] {
          unreported[index].stalls.append(stall)
        } else {
          places[kinship] = unreported.count
          unreported.append(Unreported(file: saved.name, stalls: [stall]))
        }
      }
    }
    return (0..<4).flatMap { rank in unreported.filter { $0.rank == rank } }
  }
}

extension Watchdog.PreviousRun.Ending {
  init(_ verdict: RunVerdict) {
    switch verdict {
    case .cleanExit: self = .cleanExit
    case .terminated: self = .terminated
    case .fatalHang: self = .fatalHang
    case .killed: self = .killed
    case .crash: self = .crash
    case .outOfMemory: self = .outOfMemory
    case .possiblyOutOfMemory: self = .possiblyOutOfMemory
    case .machineGone: self = .machineGone
    }
  }
}
