import Judges
import CCulpritLinux
import ChildProcesses
import Culprit
import Glibc
import Programs

/// Measures reports and exports of large stalls, and peers with equal stacks.
struct ReportsBench {
  /// Peers, from the environment: the paths of flamegraph.pl and stackcollapse-perf.pl, if set.
  private static let flamegraph = getenv("FLAMEGRAPH").map { String(cString: $0) }
  private static let stackcollapse = getenv("STACKCOLLAPSE").map { String(cString: $0) }
  private static let formats = ["collapsed", "pprof", "firefox", "chrome", "otlp", "jsonl", "html"]

  private let figures: Figures
  private let programs = programDirectory
  private let directory: String

  init(_ figures: Figures) {
    self.figures = figures
    directory = temporaryDirectory("culprit-reports")
  }

  /// The resources used by a program.
  private struct Use {
    var seconds: Double
    var mebibytes: Double
  }

  func run() throws {
    defer { _ = try? use("/bin/rm", ["-r", directory]) }
    try each(samples: 1_000_000, stacks: 50_000)
    try growth(stacks: 1000)
    try memoryGrowth(stacks: 1000)
    try files(200)
  }

  /// Measures each format of one large stall.
  private func each(samples: Int, stacks: Int) throws {
    let stall = try recording(samples: samples, stacks: stacks)
    figures.note("\(samples) samples of \(stacks) distinct stacks, 40 functions each, in 200 modules")
    let text = try culprit("text", ["report", stall])
    _ = try culprit("json", ["report", "--format=json", stall])
    for format in Self.formats { _ = try culprit(format, ["export", "--format=\(format)", "-o", out(format), stall]) }
    let pprof = try use("/usr/bin/env", ["go", "tool", "pprof", "-text", out("pprof")])
    figures.print("reports.go_pprof_text", pprof.seconds, "s")
    figures.print("reports.go_pprof_text_memory", pprof.mebibytes, "MiB")
    if let flamegraph = Self.flamegraph {
      let perl = try use("/usr/bin/perl", [flamegraph, "--countname=ms", out("collapsed")])
      figures.print("reports.flamegraph", perl.seconds, "s")
      figures.print("reports.flamegraph_memory", perl.mebibytes, "MiB")
      figures.print("reports.text_vs_flamegraph", text.seconds / perl.seconds, "times")
    }
    guard let flamegraph = Self.flamegraph, let stackcollapse = Self.stackcollapse else {
      figures.note(
        "not compared with Perl programs: FLAMEGRAPH_SCRIPTS is not a clone of github.com/brendangregg/FlameGraph"
      )
      return
    }
    let (perf, folded) = ("\(directory)/perf.txt", "\(directory)/folded.txt")
    _ = try use("\(programs)/stall-samples", ["perf", "\(samples)", "\(stacks)"], into: perf)
    let collapsing = try use("/usr/bin/perl", [stackcollapse, perf], into: folded)
    let drawing = try use("/usr/bin/perl", [flamegraph, folded])
    figures.print("reports.perl_pair", collapsing.seconds + drawing.seconds, "s")
    figures.print("reports.perl_pair_memory", max(collapsing.mebibytes, drawing.mebibytes), "MiB")
    figures.print("reports.text_vs_perl", text.seconds / (collapsing.seconds + drawing.seconds), "times", in: 0...0.333)
    unlink(perf)
  }

  /// Measures time and memory of the text report against the number of samples.
  private func growth(stacks: Int) throws {
    var uses: [(samples: Double, use: Use)] = []
    for samples in [1000, 10_000, 100_000, 1_000_000, 10_000_000] {
      defer { unlink(path(samples: samples, stacks: min(stacks, samples))) }
      let use = try use(
        "\(programs)/culprit",
        ["report", try recording(samples: samples, stacks: min(stacks, samples))]
      )
      figures.print("reports.text_\(samples)", use.seconds, "s")
      figures.print("reports.text_memory_\(samples)", use.mebibytes, "MiB")
      uses.append((Double(samples), use))
    }
    let (few, many) = (uses[uses.count - 2], uses[uses.count - 1])
    // Linear time has the exponent 1. Between these sizes, reading the samples dominates.
    figures.print(
      "reports.text_slope",
      log(many.use.seconds / few.use.seconds) / log(many.samples / few.samples),
      "exponent",
      in: 0...1.15
    )
    // The culprit is computed from 50,000 to 100,000 samples at any size, so memory varies within a factor of two.
    figures.print(
      "reports.text_memory_slope",
      log(many.use.mebibytes / few.use.mebibytes) / log(many.samples / few.samples),
      "exponent",
      in: -0.1...0.1
    )
  }

  /// Measures memory of reports, exports and the page against the number of samples. At both sizes, the culprit is
  /// computed from equally many samples.
  private func memoryGrowth(stacks: Int) throws {
    for format in ["text"] + Self.formats {
      let uses = try [100_000, 1_600_000].map { samples in
        let stall = try recording(samples: samples, stacks: stacks)
        let words = format == "text" ? ["report", stall] : ["export", "--format=\(format)", "-o", out(format), stall]
        return (samples: Double(samples), use: try use("\(programs)/culprit", words))
      }
      figures.print("reports.\(format)_memory_growth", bytesASample(uses[0], uses[1]), "bytes a sample", in: -10...1)
    }
  }

  private func bytesASample(_ few: (samples: Double, use: Use), _ many: (samples: Double, use: Use)) -> Double {
    (many.use.mebibytes - few.use.mebibytes) * 1_048_576 / (many.samples - few.samples)
  }

  /// Compares a report of many files of one service with a report of one file.
  private func files(_ count: Int) throws {
    try files(count, of: try recording(samples: 100, stacks: 20), "named_file")
    // Names are written when a stall ends. A file copied earlier must be symbolized with the program's executable.
    let share = try files(count, of: try recordingWithoutNames(), "file")
    figures.print("reports.each_file_vs_first", share, "times", in: 0...0.1)
  }

  /// Prints the time of a report of `count` copies of `stall`. Returns the time of a further copy relative to one copy.
  @discardableResult
  private func files(_ count: Int, of stall: String, _ name: String) throws -> Double {
    let many = "\(directory)/\(count)-\(name)s"
    _ = try use("/bin/mkdir", [many])
    for number in 0..<count {
      _ = try use("/bin/cp", [stall, "\(many)/culprit-20261123T205412.385Z-4242-\(number + 1).stall"])
    }
    // The minimum, because most variation comes from other work on the machine.
    func least(_ path: String) throws -> Double {
      try (0..<5).map { _ in try use("\(programs)/culprit", ["report", path]).seconds }.min() ?? .nan
    }
    let (one, all) = (try least(stall), try least(many))
    let more = (all - one) / Double(count - 1)
    figures.print("reports.one_\(name)", one * 1000, "ms")
    figures.print("reports.each_of_\(count)_\(name)s", more * 1000, "ms")
    figures.print("reports.\(count)_\(name)s_vs_one", all / one, "times", in: 0...2)
    return more / one
  }

  /// Records a stall of this program, and copies the file before the stall ends.
  private func recordingWithoutNames() throws -> String {
    let (stalls, copy) = ("\(directory)/stalls", "\(directory)/goes-on.stall")
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(500), directory: stalls))
    watchdog.onStall { _ in }
    defer { watchdog.stop() }
    try watchdog.withSection("bench", threshold: .milliseconds(500)) {
      let began = clinux_clock_ns()
      while clinux_clock_ns() - began < 2_000_000_000 {}
      let hasNames = "\(programs)/culprit info \(copy) | grep -q '^  names '"
      _ = try use("/bin/sh", ["-c", "cp \(stalls)/*.stall \(copy) && ! \(hasNames)"])
    }
    return copy
  }

  private func out(_ format: String) -> String { "\(directory)/out.\(format)" }

  private func path(samples: Int, stacks: Int) -> String { "\(directory)/\(samples)-\(stacks).stall" }

  private func recording(samples: Int, stacks: Int) throws -> String {
    let path = path(samples: samples, stacks: stacks)
    _ = try use("\(programs)/stall-samples", ["large", "\(samples)", "\(stacks)"], into: path)
    return path
  }

  private func culprit(_ name: String, _ words: [String]) throws -> Use {
    let used = try use("\(programs)/culprit", words)
    figures.print("reports.\(name)", used.seconds, "s")
    figures.print("reports.\(name)_memory", used.mebibytes, "MiB")
    return used
  }

  /// Runs `program`, which must succeed, and writes its output to `path`.
  private func use(_ program: String, _ words: [String], into path: String = "/dev/null") throws -> Use {
    let output = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard output >= 0 else { throw SpawnError(path, errno) }
    defer { close(output) }
    let began = clinux_clock_ns()
    let process = try Spawn.process(program, [program] + words, output: output)
    var (status, used): (Int32, rusage) = (0, rusage())
    while wait4(process, &status, 0, &used) < 0, errno == EINTR {}
    guard status == 0 else {
      throw ProofError("\(program) \(words.joined(separator: " ")) has failed (status \(status))")
    }
    return Use(seconds: Double(clinux_clock_ns() - began) / 1e9, mebibytes: Double(used.ru_maxrss) / 1024)
  }
}
