import CulpritBlackBox
import CulpritReports
import CulpritStallRecord
import Glibc

extension Watchdog.PreviousRun {
  /// Creates the report of the run of `record` with the given verdict. Reads the files with open stalls one at a time.
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
    for saved in stalls.saved where saved.isOpen {
      if let obstacle = MemoryRoom.obstacle(names: settings.symbolMemory, file: saved.bytes) {
        problems.append("\(directory)/\(saved.name) is not read for want of memory: \(obstacle)")
        continue
      }
      guard let file = read(saved.name) else {
        problems.append("\(directory)/\(saved.name) cannot be read")
        continue
      }
      problems += file.problems.map { "\(directory)/\(saved.name): \($0)" }
      let recording = file.recording
      // The process id might belong to another process now.
      let symbolizer = settings.symbolizer(of: recording, process: nil)
      for stall in recording.stalls where !stall.hasEnded {
        let hang = FatalHang(
          report: settings.report(of: stall, in: recording, symbolizer),
          lastStacks: settings.builder(recording, symbolizer).lastStacks(of: stall)
        )
        hangs.append(hang)
        texts.append(hang.report.description)
        texts.append(LastStacksText(hang.lastStacks).text(width: settings.width))
        if let others = hang.report.otherThreads, others.count > 0 {
          texts.append(others.text(width: settings.width))
        }
      }
    }
    self.problems = problems.map { printable($0) }
    self.hangs = hangs
    self.texts = texts
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
