import Judges
import CulpritBlackBox
import CulpritStallRecord
import FaultyDisks
import Glibc

/// Breaks the disk of a service in mid-stall, in every way, beside a service whose disk is well: does the one that is
/// struck get slower, what do its handlers get, and what is left for the next launch?
struct DiskSoak {
  /// How long the disk that is stuck is.
  var frozenSeconds: Int
  /// Gets what the services leave.
  var kept: KeptFiles

  /// What is done to the disk.
  enum Fault: String, CaseIterable {
    /// Nothing: what two services differ by without it.
    case nothing, full
    case fullInMemory = "full_in_memory"
    case readOnly = "read_only"
    case pulledOut = "pulled_out"
    case removed, replaced, stuck
  }

  /// How often each of the two services is measured, and for how many milliseconds.
  private static let rounds = 30
  private static let window = 100

  /// Runs the soak test and prints what came of it.
  ///
  /// - Parameter figures: Where the figures go.
  /// - Throws: ``FaultyDiskError``, ``BlackBoxSoakError``.
  func run(_ figures: Figures) throws {
    if let obstacle = FaultyDisk.obstacle {
      figures.note("disks are not broken: \(obstacle)")
      return
    }
    for fault in Fault.allCases { try run(fault, figures) }
  }

  /// What the turns of a service took in a window, in nanoseconds.
  private struct Window {
    var median: Double
    var p99: Double
    var p999: Double
    var longest: Double
  }

  /// A service that is in mid-stall.
  private struct StalledService {
    let process: ServiceProcess
    let directory: String

    init(on disk: FaultyDisk) throws {
      directory = disk.path + "/stalls"
      process = try ServiceProcess(
        besideThis: "blackbox-process",
        [disk.pathInside + "/stalls", "latency", "1000"],
        on: disk
      )
      process.tell("stall differently")
      guard process.fact("stalled") != nil else {
        throw BlackBoxSoakError(description: "the service did not begin")
      }
      // Everything that is written at the beginning of a stall, and some samples since.
      while saved?.others?.isComplete != true || saved?.samples.count ?? 0 < 20 { usleep(10_000) }
    }

    /// The stall as its file has it.
    var saved: Stall? {
      let box = BlackBoxDirectory(path: directory)
      let name = (try? box.names([".stall"]))?.first { $0.contains("-\(process.process)-") }
      return name.flatMap { box.stall($0) }?.recording.stalls.first
    }

    func measure(_ milliseconds: Int, meanwhile: () throws -> Void = {}) throws -> Window {
      process.tell("measure \(milliseconds)")
      try meanwhile()
      let numbers = process.fact("turns")?.split(separator: " ").compactMap { Double($0) } ?? []
      guard numbers.count == 5 else { throw BlackBoxSoakError(description: "the service did not measure") }
      return Window(median: numbers[1], p99: numbers[2], p999: numbers[3], longest: numbers[4])
    }

    /// How long it takes until `isDone`, in milliseconds; infinite when it takes longer than any patience.
    func time(_ isDone: () -> Bool) -> Double {
      let clock = ContinuousClock()
      let began = clock.now
      while !isDone() {
        if clock.now - began > .seconds(20) { return .infinity }
        usleep(5000)
      }
      return (clock.now - began) / .milliseconds(1)
    }

    /// The same until it says `fact`, which is returned.
    func time(_ command: String, until fact: String) -> (milliseconds: Double, value: String?) {
      let clock = ContinuousClock()
      let began = clock.now
      process.tell(command)
      let value = process.fact(fact, within: 20_000)
      return (value == nil ? .infinity : (clock.now - began) / .milliseconds(1), value)
    }
  }

  private func run(_ fault: Fault, _ figures: Figures) throws {
    let name = fault.rawValue
    let wellDisk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300 + frozenSeconds)
    let disk = try FaultyDisk(
      fault == .fullInMemory ? .tmpfs : .ext4,
      mebibytes: fault == .full || fault == .fullInMemory ? 1 : 16,
      seconds: 300 + frozenSeconds
    )
    let directory = disk.path + "/stalls"
    let well = try StalledService(on: wellDisk)
    let struck = try StalledService(on: disk)
    // This one is killed; that one leaves without having stopped its watchdog.
    let killed = try StalledService(on: disk)
    let leaving = try StalledService(on: disk)
    for service in [well, struck] { _ = try service.measure(Self.window) }
    var windows: [(well: Window, struck: Window)] = []
    let clock = ContinuousClock()
    let began = clock.now
    while windows.count < Self.rounds || fault == .stuck && clock.now - began < .seconds(frozenSeconds) {
      let before = try well.measure(Self.window)
      let isFirst = windows.isEmpty
      let after = try struck.measure(Self.window) { if isFirst { try strike(fault, disk) } }
      windows.append((before, after))
    }
    printLatencies(windows, name, figures)

    let end = struck.time("end", until: "reported")
    figures.print("blackbox.report_wait_\(name)", end.milliseconds, "ms", in: 0...5000)
    // SOURCE DURATION SAMPLES LOST AGE CULPRIT
    let fields = end.value?.split(separator: " ", maxSplits: 5) ?? []
    let samples = fields.count == 6 ? Double(fields[2]) ?? .nan : .nan
    figures.print("blackbox.handler_samples_\(name)", samples, "samples", in: 1...1e6)
    figures.print(
      "blackbox.handler_lost_\(name)",
      fields.count == 6 ? Double(fields[3]) ?? .nan : .nan,
      "samples",
      in: 0...0
    )
    figures.note("the handler was told: \(end.value ?? "nothing")")
    let status = struck.time("status", until: "problems").value ?? ""
    for problem in status.split(separator: " ", maxSplits: 1).dropFirst() { figures.note("status: \(problem)") }
    figures.print(
      "blackbox.problems_\(name)",
      status.split(separator: " ").first.flatMap { Double($0) } ?? .nan,
      "sentences",
      in: fault == .nothing ? 0...0 : 1...16
    )
    figures.print("blackbox.stop_\(name)", struck.time("stop", until: "stopped").milliseconds, "ms", in: 0...10_000)
    struck.process.tell("exit")
    figures.print("blackbox.exit_\(name)", struck.time { struck.process.hasLeft }, "ms", in: 0...5000)
    leaving.process.tell("exit")
    figures.print("blackbox.exit_unstopped_\(name)", leaving.time { leaving.process.hasLeft }, "ms", in: 0...5000)
    kill(killed.process.process, SIGKILL)
    if fault == .stuck {
      // Otherwise nothing of the above is worth anything.
      guard disk.thaw() else { throw BlackBoxSoakError(description: "the disk was not stuck until now") }
    }
    well.process.tell("exit")
    for service in [well, struck, leaving, killed] { service.process.end() }
    if fault == .readOnly || fault == .pulledOut { try disk.mountAgain() }
    try tell(fault, disk, struck, killed, leaving, samples, figures)
    kept.add(directory)
  }

  private func strike(_ fault: Fault, _ disk: FaultyDisk) throws {
    usleep(50_000)
    switch fault {
    case .nothing: break
    case .full, .fullInMemory: try disk.fill()
    case .readOnly: try disk.makeReadOnly()
    case .pulledOut: try disk.pullOut()
    case .removed, .replaced: try disk.removeDirectory("stalls", andMakesNew: fault == .replaced)
    case .stuck: try disk.freeze()
    }
  }

  private func printLatencies(_ windows: [(well: Window, struck: Window)], _ name: String, _ figures: Figures) {
    func ratio(_ value: (Window) -> Double) -> Double {
      // One right after the other, so that what else the machine does is in both.
      median(windows.map { value($0.struck) / value($0.well) })
    }
    figures.print("blackbox.latency_ratio_\(name)", ratio(\.p99), "times", in: 0...1.5)
    // What waits for the disk waits for as long as the disk likes.
    figures.print(
      "blackbox.latency_max_\(name)",
      (windows.map(\.struck.longest).max() ?? .nan) / 1e6,
      "ms",
      in: 0...500
    )
    func times(_ value: (Window) -> Double) -> String {
      "\(Int(median(windows.map { value($0.well) }))) and \(Int(median(windows.map { value($0.struck) })))"
    }
    figures.note(
      "\(name): turns in ns, healthy and faulty disk: p50 \(times(\.median)), p99 \(times(\.p99)), p999 \(times(\.p999)), "
        + "max \(times(\.longest)); longest of all \(Int(windows.map(\.well.longest).max() ?? 0)) and "
        + "\(Int(windows.map(\.struck.longest).max() ?? 0)); \(windows.count) rounds"
    )
  }

  /// What the next launch and the files say.
  private func tell(
    _ fault: Fault,
    _ disk: FaultyDisk,
    _ struck: StalledService,
    _ killed: StalledService,
    _ leaving: StalledService,
    _ handlerSamples: Double,
    _ figures: Figures
  ) throws {
    let name = fault.rawValue
    let teller = try ServiceProcess(besideThis: "blackbox-process", [disk.pathInside + "/stalls", "tell"], on: disk)
    let lines = teller.rest().split(separator: "\n")
    teller.end()
    for line in lines { figures.note("the next launch: \(line)") }
    for (what, service) in [("stopped", struck), ("left", leaving), ("killed", killed)] {
      guard let saved = service.saved else {
        figures.note("the file of what was \(what) is gone")
        continue
      }
      figures.note(
        "the file of what was \(what): \(saved.samples.count) samples, \(saved.lostSamples) lost, "
          + "\(saved.duration), \(saved.hasEnded ? "with" : "without") an end"
      )
    }
    let saved = struck.saved
    // What has lost its stack has lost what a sample is for, and counts as lost.
    let whole = saved?.samples.filter { $0.stack != nil || $0.outcome != .captured }.count ?? 0
    figures.print("blackbox.saved_samples_\(name)", Double(whole), "samples", in: 1...max(1, handlerSamples))
    // A disk that takes nothing is not told what it misses.
    let isSilent = fault == .readOnly || fault == .pulledOut || fault == .stuck
    figures.print(
      "blackbox.unaccounted_\(name)",
      handlerSamples - Double(whole) - Double(saved?.lostSamples ?? 0),
      "samples",
      in: isSilent ? 0...1e6 : 0...0
    )
    let itsRun = lines.drop { !$0.hasPrefix("run=\(killed.process.process) ") }.dropFirst()
    let hangs = itsRun.prefix { !$0.hasPrefix("run=") }.filter { $0.hasPrefix("hang=stuck ") }.count
    // The file of a run that was removed is made anew with the next stall only.
    figures.print("blackbox.told_\(name)", Double(hangs), "hangs", in: 1...1)
  }
}
