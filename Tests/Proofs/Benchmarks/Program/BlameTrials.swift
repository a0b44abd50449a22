import Judges
import ChildProcesses
import CulpritOptions
import Glibc
import Programs

/// Judges Culprit's reports of random stalls with known culprits (`Tests/Proofs/Blame`).
struct BlameTrials {
  /// A build of the trial program.
  struct Build {
    var name: String
    var program: String

    /// The builds of `Tests/Proofs/Blame/build`.
    static let all = [
      Build(name: "release", program: ".build/blame/.build/release/blame-trials"),
      Build(name: "debug", program: ".build/blame/.build/debug/blame-trials"),
      Build(name: "static", program: ".build/blame-static/.build/release/blame-trials"),
    ]
  }

  static let options = [
    CommandOption("trials", argument: "COUNT", help: "blame: number of random stalls (600)"),
    CommandOption("seed", argument: "NUMBER", help: "blame: seed of the random stalls"),
    CommandOption("kinds", argument: "NAME,…", help: "blame: only these kinds of work, four or more"),
    CommandOption("builds", argument: "NAME,…", help: "blame: only these of release, debug, static"),
    CommandOption("wrong", argument: "DIR", help: "blame: keep the texts of wrong reports in DIR"),
  ]

  private let figures: Figures
  private let arguments: OptionTable.Arguments
  private let seed: Int
  private let builds: [Build]

  init(_ figures: Figures, _ arguments: OptionTable.Arguments) throws {
    self.figures = figures
    self.arguments = arguments
    seed = try arguments.number("seed", in: 0...Int.max) ?? Int.random(in: 0...999_999)
    let names = arguments.value("builds")?.split(separator: ",").map(String.init)
    builds = Build.all.filter { names?.contains($0.name) ?? true }
    if let unknown = names?.first(where: { name in !builds.contains { $0.name == name } }) {
      throw UsageError("there is no build \"\(unknown)\"; there are release, debug and static")
    }
    figures.note("seed \(seed)")
  }

  /// Runs all trials in every build, idle and with four busy processes. Then compares reports of saved stalls.
  func run(isBrief: Bool) throws {
    if isBrief { return try runBriefly() }
    let trials = try arguments.number("trials", in: 1...1_000_000) ?? 600
    let series = builds.flatMap { build in [false, true].map { (build: build, isBusy: $0) } }
    var verdicts: [BlameVerdict] = []
    for (number, part) in series.enumerated() {
      let count = trials * (number + 1) / series.count - trials * number / series.count
      guard count > 0 else { continue }
      let place = "\(part.build.name), \(part.isBusy ? "busy" : "quiet")"
      var words = ["trials=\(count)", "seed=\(seed + number)", "divided=16"]
      if let kinds = arguments.value("kinds") { words.append("kinds=\(kinds)") }
      let kept = arguments.value("wrong").map { "\($0)/\(part.build.name)-\(part.isBusy ? "busy" : "quiet")" }
      if let kept {
        try succeed("/bin/mkdir", ["-p", kept])
        words.append("reports=\(kept)")
      }
      let spinners = try part.isBusy ? (0..<4).map { _ in try Spinner(part.build.program) } : []
      let found = try runTrials(part.build.program, words, place)
      spinners.forEach { $0.end() }
      for verdict in found { if let kept, verdict.isRight { unlink("\(kept)/\(verdict.number).txt") } }
      if found.count < count { figures.note("\(place): \(count - found.count) of \(count) trials did not finish") }
      verdicts += found
    }
    BlameSummary(verdicts, missing: trials - verdicts.count).print(figures)
    try compareSavedReports()
  }

  /// Runs twelve trials of kinds that every build names, with the trial program in this program's directory.
  private func runBriefly() throws {
    let words = ["trials=12", "seed=\(seed)", "kinds=solid", "threads=4"]
    let verdicts = try runTrials("\(programDirectory)/blame-trials", words, "briefly")
    BlameSummary(verdicts, missing: 12 - verdicts.count).print(figures)
  }

  private func runTrials(_ program: String, _ words: [String], _ place: String) throws -> [BlameVerdict] {
    let output = try Spawn.output(of: program, words)
    if output.status != 0 { figures.note("\(place): the program ended with \(output.status)") }
    return output.text.split(separator: "\n").compactMap { BlameVerdict(String($0), place: place) }
  }

  // MARK: Changed executables

  /// A change of the executable between a stall and its report.
  private enum Change: String, CaseIterable { case rebuilt, stripped, deleted }

  /// Compares live reports of 50 stalls with reports made after a change of the executable.
  private func compareSavedReports() throws {
    guard arguments.value("kinds") == nil, builds.count == Build.all.count else { return }
    let all = builds.flatMap { build in Change.allCases.map { (build, $0) } }
    var (same, count) = (0, 0)
    for (number, (build, change)) in all.enumerated() {
      let trials = number < 5 ? 6 : 5
      let compared = try compareReports(build, change, trials, seed: seed + 100 + number)
      same += compared.same
      count += trials
    }
    figures.print("blame.travels", Double(same), "stalls", in: 50...50)
    if count != 50 { figures.note("\(count) were compared") }
  }

  private func compareReports(_ build: Build, _ change: Change, _ trials: Int, seed: Int) throws
    -> (same: Int, all: Int)
  {
    let directory = temporaryDirectory("culprit-travel")
    defer { try? succeed("/bin/rm", ["-rf", directory]) }
    let program = "\(directory)/service"
    try succeed("/bin/cp", [build.program, program])
    try succeed("/bin/mkdir", ["\(directory)/texts", "\(directory)/stalls"])
    let words = [
      "trials=\(trials)", "seed=\(seed)", "threads=3", "reports=\(directory)/texts", "save=\(directory)/stalls",
    ]
    let place = "\(build.name), \(change.rawValue)"
    let verdicts = try runTrials(program, words, place)
    switch change {
    case .rebuilt:
      // Another build of the same program.
      let other = Build.all.first { $0.name != build.name } ?? build
      unlink(program)
      try succeed("/bin/cp", [other.program, program])
    case .stripped: try succeed("/usr/bin/strip", [program])
    case .deleted: unlink(program)
    }
    let saved = try Spawn.output(
      of: "/bin/sh",
      ["-c", "exec '\(programDirectory)/culprit' report --width=1000 \(directory)/stalls/*.stall"]
    )
    let reports = Dictionary(
      Self.reports(in: saved.text).map { ($0.trial, $0.text) },
      uniquingKeysWith: { first, _ in first }
    )
    var same = 0
    for verdict in verdicts {
      let live = Self.reports(in: readFile("\(directory)/texts/\(verdict.number).txt")).first?.text ?? []
      let later = reports[verdict.number] ?? []
      if !live.isEmpty, live == later {
        same += 1
        continue
      }
      let difference = zip(live, later).first { $0 != $1 }
      figures.note(
        "\(place): trial \(verdict.number) reads differently later: \"\(difference?.1 ?? "nothing")\", live "
          + "\"\(difference?.0 ?? "\(live.count) lines, later \(later.count)")\""
      )
      if let kept = arguments.value("wrong") {
        let name = "\(kept)/travels-\(build.name)-\(change.rawValue)-\(verdict.number)"
        try succeed("/bin/mkdir", ["-p", kept])
        try succeed("/bin/cp", ["\(directory)/texts/\(verdict.number).txt", "\(name)-live.txt"])
        write(later.joined(separator: "\n") + "\n", to: "\(name)-later.txt")
      }
    }
    return (same, verdicts.count)
  }

  /// Returns the number of the trial, and the lines with culprits, shares and names, of each report in `text`.
  private static func reports(in text: String) -> [(trial: Int, text: [String])] {
    var reports: [(trial: Int, text: [String])] = []
    var isOfInterest = false
    for line in text.split(separator: "\n").map(String.init) {
      if line.hasPrefix("STALL ") {
        let digits = line.split(separator: "\"").dropFirst().first?.drop { $0 != " " }.dropFirst() ?? ""
        reports.append((Int(digits) ?? -1, []))
      }
      if let first = line.first, first.isUppercase {
        isOfInterest = ["CULPRIT", "ALSO", "LAST SEEN", "TREE"].contains { line.hasPrefix($0) }
      }
      if isOfInterest, !reports.isEmpty { reports[reports.count - 1].text.append(line) }
    }
    return reports
  }

  // MARK: Programs

  /// A process that keeps a CPU busy.
  private struct Spinner {
    private let id: pid_t
    private let input: Int32

    init(_ program: String) throws {
      let pipe = try Spawn.pipe()
      input = pipe.writing
      id = try Spawn.process(program, [program, "spin"], input: pipe.reading)
      close(pipe.reading)
    }

    func end() {
      close(input)
      _ = Spawn.end(id)
    }
  }

  private func succeed(_ program: String, _ words: [String]) throws {
    let (_, status) = try Spawn.output(of: program, words)
    guard status == 0 else { throw UsageError("\(program) \(words.joined(separator: " ")) ended with \(status)") }
  }

  private func write(_ text: String, to path: String) {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard file >= 0 else { return }
    Spawn.write(text.utf8, to: file)
    close(file)
  }
}
